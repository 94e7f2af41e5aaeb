"""Step 2: draws what step 1 left in summary.json. Standard library only: a chart is a file, and SVG is text."""

import json

NAMES = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 400, 60, 56, 340

with open("summary.json") as file:
    summary = json.load(file)

step = (WIDTH - 2 * LEFT) / len(summary)
warmest = max(m["high"] for m in summary)
wettest = max(m["rain"] for m in summary)
degrees = 5 * (int(warmest / 5) + 1)
millimetres = 50 * (int(wettest / 50) + 1)


def x(index):
    return LEFT + (index + 0.5) * step


def y(value, top):
    return BOTTOM - value / top * (BOTTOM - TOP)


def text(at_x, at_y, words, anchor="middle", fill="#475569", size=12):
    return f'<text x="{at_x:.1f}" y="{at_y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}">{words}</text>'


parts = [
    f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
    f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    text(LEFT, 24, "Seattle, an average year", "start", "#0f172a", 16),
    text(LEFT - 10, TOP - 12, "°C", "end"),
    text(WIDTH - LEFT + 10, TOP - 12, "mm", "start"),
]
for mark in range(0, 6):
    level = BOTTOM - mark / 5 * (BOTTOM - TOP)
    parts.append(f'<line x1="{LEFT}" x2="{WIDTH - LEFT}" y1="{level:.1f}" y2="{level:.1f}" stroke="#e2e8f0"/>')
    parts.append(text(LEFT - 10, level + 4, f"{degrees * mark / 5:g}", "end"))
    parts.append(text(WIDTH - LEFT + 10, level + 4, f"{millimetres * mark / 5:g}", "start"))
for index, month in enumerate(summary):
    bar = y(month["rain"], millimetres)
    parts.append(f'<rect x="{x(index) - step * 0.3:.1f}" y="{bar:.1f}" width="{step * 0.6:.1f}" height="{BOTTOM - bar:.1f}" fill="#bfdbfe"/>')
    parts.append(text(x(index), BOTTOM + 20, NAMES[month["month"] - 1]))
for index, (field, colour, label) in enumerate((("high", "#dc2626", "warmest of the day"), ("low", "#2563eb", "coldest of the day"))):
    line = " ".join(f"{x(i):.1f},{y(month[field], degrees):.1f}" for i, month in enumerate(summary))
    parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
    parts.append(text(LEFT + 90 + 200 * index, HEIGHT - 16, label, fill=colour))
parts.append(text(LEFT + 490, HEIGHT - 16, "rain and snow in the month", fill="#3b82f6"))
parts.append("</svg>")

with open("chart.svg", "w") as file:
    file.write("\n".join(parts) + "\n")
print(f"chart.svg: {len(summary)} months")
