"""What the rows of the table `history` say: which events begin a stay on a queue, which end it."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

ENTER = ("put", "published")
SERVED = ("settled", "transferred")  # It went where it was to go.
GONE = ("expired", "dead-lettered", "moved", "removed", "lost", "damaged")  # It went otherwise.
LEAVE = (*SERVED, *GONE)


def stays(history: DataFrame) -> DataFrame:
    """Returns a row for each stay of a message on a queue.

    queue_manager, store_id, queue, arrival, message_id   which
    origin, created_at   of the message
    put_at               when it came; null where the journal began later
    delivered_at         when it was first handed to a consumer; null if it never was
    returns              how often it came back
    left_at, ended       when and by which event it went; null if it is there still
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
