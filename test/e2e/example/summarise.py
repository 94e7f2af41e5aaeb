"""Step 1: reads the daily observations, prints the answer and leaves a monthly summary beside them for the next step."""

import csv
import json
from collections import Counter, defaultdict
from statistics import mean

months = defaultdict(lambda: {"highs": [], "lows": [], "rain": 0.0, "years": set()})
kinds = Counter()
with open("seattle-weather.csv", newline="") as file:
    for day in csv.DictReader(file):
        year, month, _ = day["date"].split("-")
        entry = months[int(month)]
        entry["highs"].append(float(day["temp_max"]))
        entry["lows"].append(float(day["temp_min"]))
        entry["rain"] += float(day["precipitation"])
        entry["years"].add(year)
        kinds[day["weather"]] += 1

summary = [
    {"month": month, "high": round(mean(m["highs"]), 1), "low": round(mean(m["lows"]), 1), "rain": round(m["rain"] / len(m["years"]), 1)}
    for month, m in sorted(months.items())
]
with open("summary.json", "w") as file:
    json.dump(summary, file)

wettest = max(summary, key=lambda m: m["rain"])
warmest = max(summary, key=lambda m: m["high"])
print(json.dumps({"days": sum(kinds.values()), "kinds": dict(kinds.most_common()), "wettest": wettest, "warmest": warmest}))
