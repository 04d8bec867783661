"""Draws training losses as an SVG picture. Needs only Python's standard library."""

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 50, 15, 35, 40
COLORS = ["#222222", "#1f77b4", "#d62728", "#2ca02c", "#9467bd"]
DASHES = ["", "", "6 3", "2 3", "8 3 2 3"]  # so that both of two curves on top of each other can be seen
WINDOW = 10  # a point is the mean of so many steps


def smooth(runs):
    """The mean over runs, then over WINDOW steps: [(last step of the window, loss)]."""
    means = [sum(step) / len(runs) for step in zip(*runs)]
    return [(i + WINDOW, sum(means[i : i + WINDOW]) / WINDOW) for i in range(0, len(means) - WINDOW + 1, WINDOW)]


def write_svg(path, title, curves):
    """curves: {name: [losses by step, one list a run]}."""
    points = {name: smooth(runs) for name, runs in curves.items()}
    steps = max(x for line in points.values() for x, _ in line)
    top = max(y for line in points.values() for _, y in line)

    def at(x, y):
        return (
            f"{LEFT + (WIDTH - LEFT - RIGHT) * x / steps:.1f},{HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / top:.1f}"
        )

    def text(x, y, words, anchor="middle"):
        return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>'

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(WIDTH / 2, 20, title),
    ]
    for i in range(5):
        x, y = steps * i / 4, top * i / 4
        px, py = at(x, y).split(",")
        out.append(f'<path d="M{LEFT},{py} H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        out.append(text(LEFT - 6, float(py) + 4, f"{y:.2f}", "end"))
        out.append(text(px, HEIGHT - BOTTOM + 18, f"{x:.0f}"))
    out.append(text(WIDTH / 2, HEIGHT - 6, f"step (means of {WINDOW} steps and of all seeds)"))
    for i, (name, line) in enumerate(points.items()):
        color, dashes = COLORS[i % len(COLORS)], DASHES[i % len(DASHES)]
        stroke = f'stroke="{color}" stroke-width="1.5" fill="none" stroke-dasharray="{dashes}"'
        out.append(f'<polyline {stroke} points="{" ".join(at(x, y) for x, y in line)}"/>')
        y = TOP + 15 + 16 * i
        out.append(f'<path d="M{WIDTH - 130},{y - 4} h30" {stroke}/>' + text(WIDTH - 94, y, name, "start"))
    out.append("</svg>\n")
    with open(path, "w") as file:
        file.write("\n".join(out))
