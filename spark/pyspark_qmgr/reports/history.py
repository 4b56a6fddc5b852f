"""The stays of messages on queues, from the events in table `history`."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

ENTER = ("put", "published")
SERVED = ("settled", "transferred")  # events by which a message reaches its destination
# Other events by which a message leaves its queue.
GONE = ("expired", "dead-lettered", "moved", "removed", "lost", "damaged")
LEAVE = (*SERVED, *GONE)


def stays(history: DataFrame) -> DataFrame:
    """Returns a row for each stay of a message on a queue.

    queue_manager, store_id, queue, arrival, message_id   identify the stay
    origin, created_at   of the message
    put_at               the time of arrival; null if the history began later
    delivered_at         the time of the first delivery to a consumer; null if none
    returns              the number of returns
    left_at, ended       the time and the event of leaving; null if the message is on the queue
    record_bytes         the size of the record
    """
    event, at = F.col("event"), F.col("at")
    return history.groupBy("queue_manager", "store_id", "queue", "arrival", "message_id").agg(
        F.min("origin").alias("origin"),
        F.min("created_at").alias("created_at"),
        F.coalesce(F.min(F.when(event.isin(*ENTER), at)), F.min("put_at")).alias("put_at"),
        F.min(F.when(event == "delivered", at)).alias("delivered_at"),
        F.count_if(event == "returned").alias("returns"),
        F.max(F.when(event.isin(*LEAVE), at)).alias("left_at"),
        F.max(F.when(event.isin(*LEAVE), event)).alias("ended"),
        F.max("record_bytes").alias("record_bytes"),
    )
