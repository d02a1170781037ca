"""tensorflow.CoordinationService by hand, as wire.py does for its successor.

The field tables are this folder's own reading of the protocol.
"""

from wire import Wire

SERVICE = "/tensorflow.CoordinationService/"

TASK = {"job_name": (1, "text"), "task_id": (2, "int"), "recoverable": (3, "int")}
_ENTRY = {"key": (1, "text"), "value": (2, "bytes")}
_STATE = {"task": (1, TASK), "state": (2, "int"), "error_code": (3, "int"),
          "error_message": (4, "text"), "incarnation": (6, "fixed64")}
ERROR_PAYLOAD = {"is_reported_error": (3, "int"), "source_task": (4, TASK)}

REQUESTS = {
    "RegisterTask": {"incarnation": (3, "fixed64"), "source_task": (5, TASK)},
    "Heartbeat": {"incarnation": (3, "fixed64"), "source_task": (4, TASK)},
    "WaitForAllTasks": {"local_device_info": (4, "bytes"), "source_task": (5, TASK),
                        "device_info": (6, "bytes")},
    "ShutdownTask": {"source_task": (1, TASK)},
    "ResetTask": {"source_task": (1, TASK)},
    "ReportErrorToTask": {"error_code": (1, "int"), "error_message": (2, "text"),
                          "error_payload": (5, ERROR_PAYLOAD)},
    "ReportErrorToService": {"error_code": (1, "int"), "error_message": (2, "text"),
                             "error_origin": (5, TASK)},
    "GetTaskState": {"source_task": (1, [TASK])},
    "WatchJobState": {"job_name": (1, "text"), "version_number": (2, "int")},
    "InsertKeyValue": {"kv": (1, _ENTRY), "allow_overwrite": (2, "int")},
    "GetKeyValue": {"key": (1, "text")},
    "TryGetKeyValue": {"key": (1, "text")},
    "IncrementKeyValue": {"key": (1, "text"), "increment": (2, "int")},
    "GetKeyValueDir": {"directory_key": (1, "text")},
    "DeleteKeyValue": {"key": (1, "text"), "is_directory": (2, "int")},
    "Barrier": {"barrier_id": (1, "text"), "barrier_timeout_in_ms": (2, "int"),
                "tasks": (3, [TASK]), "source_task": (4, TASK), "counter": (5, "int")},
    "CancelBarrier": {"barrier_id": (1, "text"), "source_task": (2, TASK), "counter": (3, "int")},
    "GetAliveTasks": {"requesting_task": (1, TASK), "tasks": (2, [TASK])},
    "PollForError": {"source_task": (1, TASK)},
}

REPLIES = {
    "RegisterTask": {"leader_incarnation": (1, "fixed64")},
    "Heartbeat": {"leader_incarnation": (1, "fixed64")},
    "WaitForAllTasks": {"leader_incarnation": (1, "fixed64"), "cluster_device_info": (3, "bytes"),
                        "device_info": (4, "bytes")},
    "GetTaskState": {"task_state": (1, [_STATE])},
    "WatchJobState": {"task_state": (1, [_STATE]), "version_number": (2, "int")},
    "GetKeyValue": {"kv": (1, _ENTRY)},
    "TryGetKeyValue": {"kv": (1, _ENTRY)},
    "IncrementKeyValue": {"kv": (1, _ENTRY)},
    "GetKeyValueDir": {"directory_key": (1, "text"), "kv": (2, [_ENTRY])},
    "Barrier": {"counter": (1, "int")},
    "GetAliveTasks": {"alive_tasks": (1, [TASK]), "incarnations": (2, "fixed64s")},
}


class OlderWire(Wire):
    """One connection to a server. It never says which service it means: the messages cannot."""

    service, requests, replies = SERVICE, REQUESTS, REPLIES

    def _incarnations(self, method):
        return b""


class OlderMember(OlderWire):
    """One life of one member."""

    def __init__(self, address, role, index, incarnation, recoverable=False):
        super().__init__(address)
        self.role = role
        self.index = index
        self.incarnation = incarnation
        self.task = task(role, index) | ({"recoverable": True} if recoverable else {})

    def register(self, **options):
        return self.start("RegisterTask", incarnation=self.incarnation, source_task=self.task,
                          **options)

    def registered(self, call):
        self.service_incarnation = call.value()["leader_incarnation"]
        return self

    def heartbeat(self):
        return self.start("Heartbeat", incarnation=self.incarnation, source_task=self.task)

    def poll(self):
        return self.start("PollForError", source_task=self.task)

    def shut_down(self):
        return self.start("ShutdownTask", source_task=self.task)

    def reset(self):
        return self.start("ResetTask", source_task=self.task)

    def report(self, code, text):
        return self.start("ReportErrorToService", error_code=code, error_message=text,
                          error_origin=self.task)

    def wait_for_all(self, devices, field="device_info"):
        return self.start("WaitForAllTasks", source_task=self.task, **{field: devices})

    def barrier(self, name, counter=0, timeout_ms=60_000, indices=()):
        return self.start("Barrier", barrier_id=name, barrier_timeout_in_ms=timeout_ms,
                          tasks=[task(self.role, index) for index in indices],
                          source_task=self.task, counter=counter)

    def cancel_barrier(self, name, counter=0):
        return self.start("CancelBarrier", barrier_id=name, counter=counter, source_task=self.task)

    def alive(self, indices):
        return self.start("GetAliveTasks", requesting_task=self.task,
                          tasks=[task(self.role, index) for index in indices])


def task(role, index):
    return {"job_name": role, "task_id": index}
