"""The client of a queue manager: one sans-I/O core, an asyncio shell and a blocking one."""
