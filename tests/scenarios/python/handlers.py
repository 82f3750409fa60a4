"""What preview.md puts into its chain."""

from hsdns.plugins.python import Next, Reply, Request, RRType, UserHandler, record

PREVIEWS = {"blue.preview.test.": "192.0.2.10", "green.preview.test.": "192.0.2.11"}


class Preview(UserHandler):
    """Answers from a dict."""

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        address = PREVIEWS.get(request.query.qname.lowered().to_text())
        if address is None:
            return await next(request)
        found = (record(request, 30, "A", address),) if request.query.qtype == RRType.A else ()
        return Reply(answer=found, aa=True)


class Broken(UserHandler):
    """Raises."""

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - as above
        raise ValueError(request.query.qname.to_text())
