package nodecalls

import "berth/structs"

// ClientCSIQuiesce makes a node run the command of a task before a snapshot of one of its volumes is cut:
// structs.SnapshotCommands.Pre. The node runs Post if Resume does not come in time. The error is a
// precondition if the task does not run or its command has failed. Post has run then.
var ClientCSIQuiesce = structs.Write[QuiesceRequest, structs.Empty]("ClientCSI.Quiesce")

// ClientCSIResume makes a node run the command after the snapshot.
var ClientCSIResume = structs.Write[QuiesceRequest, ResumeResponse]("ClientCSI.Resume")

// QuiesceRequest names the volume and the task.
type QuiesceRequest struct {
	VolumeID string
	AllocID  string
	Task     string
	structs.WriteOptions
}

// ResumeResponse tells what the snapshot needs to know.
type ResumeResponse struct {
	// Late is the reason why the task was not quiesced any more, "" if it was.
	Late string `json:",omitempty"`
	// Fault is the failure of the command, "" for none.
	Fault string `json:",omitempty"`
	structs.WriteMeta
}
