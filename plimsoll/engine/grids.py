"""Interpolation in timing tables: linear between points, straight on beyond the last ones."""

from bisect import bisect_right


class Line:
    """A piecewise linear function; `points` are strictly increasing, at least two."""

    def __init__(self, points: tuple[float, ...], values: tuple[float, ...]) -> None:
        self._points = list(points)
        self._values = list(values)

    def at(self, point: float) -> float:
        """The value there."""
        low = self.cell(point)
        return self._values[low] + (point - self._points[low]) * self.slope(low)

    def cell(self, point: float) -> int:
        """Index of the stretch that it lies in; a shared end belongs to the stretch above it."""
        return max(0, min(bisect_right(self._points, point) - 1, len(self._points) - 2))

    def slope(self, cell: int) -> float:
        """Growth within a stretch."""
        return (self._values[cell + 1] - self._values[cell]) / (self._points[cell + 1] - self._points[cell])

    def edge(self, cell: int) -> float:
        """The upper end of a stretch; inf for the last one, which goes on."""
        return self._points[cell + 1] if cell < len(self._points) - 2 else float("inf")


class Grid:
    """A function of two numbers, linear in each: a `Line` over the second for each point of the first."""

    def __init__(
        self, rows: tuple[float, ...], columns: tuple[float, ...], values: tuple[tuple[float, ...], ...]
    ) -> None:
        self._rows = Line(rows, rows)
        self._points = list(rows)
        self._lines = [Line(columns, row) for row in values]

    def _share(self, row: float) -> tuple[int, float]:
        low = self._rows.cell(row)
        return low, (row - self._points[low]) / (self._points[low + 1] - self._points[low])

    def at(self, row: float, column: float) -> float:
        """The value there."""
        low, share = self._share(row)
        return (1 - share) * self._lines[low].at(column) + share * self._lines[low + 1].at(column)

    def slope(self, row: float, column: float) -> float:
        """Growth with the second number just above `column`."""
        low, share = self._share(row)
        cell = self._lines[0].cell(column)
        return (1 - share) * self._lines[low].slope(cell) + share * self._lines[low + 1].slope(cell)

    def edge(self, column: float) -> float:
        """Up to where that growth stays as it is."""
        return self._lines[0].edge(self._lines[0].cell(column))
