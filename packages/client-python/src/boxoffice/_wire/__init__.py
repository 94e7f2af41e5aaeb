"""The wire, described once: generators that yield effects and get their outcome. They do no I/O, read no clock but a monotonic one."""
