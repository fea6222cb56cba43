"""Five-field cron expressions of scheduled actions."""

DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


def field(text, low, high, names=()):
    """The values that a cron field allows."""
    allowed = set()
    for part in text.upper().split(","):
        span, _, step = part.partition("/")
        for at, name in enumerate(names):
            span = span.replace(name, str(at))
        if span == "*":
            first, last = low, high
        else:
            first, _, last = span.partition("-")
            first, last = int(first), int(last or first)
        allowed |= set(range(first, last + 1, int(step or 1)))
    return allowed


def matches(recurrence, moment):
    """Whether a cron expression matches this minute, with cron's semantics of day of month and day of week."""
    minute, hour, day, month, weekday = recurrence.split()
    weekdays = {value % 7 for value in field(weekday, 0, 7, DAYS)}
    day_fits = moment.day in field(day, 1, 31)
    weekday_fits = moment.isoweekday() % 7 in weekdays
    on_day = (day_fits or weekday_fits) if "*" not in (day, weekday) else (day_fits and weekday_fits)
    return (
        moment.minute in field(minute, 0, 59)
        and moment.hour in field(hour, 0, 23)
        and moment.month in field(month, 1, 12)
        and on_day
    )
