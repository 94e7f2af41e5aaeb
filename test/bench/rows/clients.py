"""Times `exec` of the Python client. Each line of stdin is a count; the answer is that many times in milliseconds, as JSON."""

import json
import os
import sys
import time

from boxoffice import Client

with Client(os.environ["BOXOFFICE_URL"], api_key=os.environ["BOXOFFICE_API_KEY"]) as client:
    # Not a `with` block: its end would release the session that the other clients measure in.
    session = client.session(os.environ["BENCH_THREAD"])
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            result = session.exec("true")
            times.append((time.perf_counter() - start) * 1000)
            if result.exit_code != 0:
                raise RuntimeError(f"true: {result}")
        print(json.dumps(times), flush=True)
