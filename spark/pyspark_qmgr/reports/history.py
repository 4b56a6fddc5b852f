"""Stays on queues, from the events in the table `history`."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

ENTER = ("put", "published")
SERVED = ("settled", "transferred")  # the message reached its destination
# the message left in another way
GONE = ("expired", "dead-lettered", "moved", "removed", "lost", "damaged")
LEAVE = (*SERVED, *GONE)


def stays(history: DataFrame) -> DataFrame:
    """Returns a row for each stay of a message on a queue.

    queue_manager, store_id, queue, arrival, message_id   identify the stay
    origin, created_at   of the message
    put_at               when it arrived; null if the journal began later
    delivered_at         when it was first delivered to a consumer; null if never
    returns              how often it was returned
    left_at, ended       when and by which event it left; null if it is still on the queue
    record_bytes         its size
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
