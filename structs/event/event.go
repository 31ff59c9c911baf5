// Package event has the events of the cluster and the request that reads them. Each server makes the same
// events of the log entries that it applies, in the same order, so a reader may go from server to server with
// the index of a log entry. It is apart: an event is a noun of its own, and its short names (Topic, Event)
// belong to it.
package event

import "berth/structs"

// List reads the events after an index. Without any it waits for one, for at most QueryOptions.MaxWait.
var List = structs.Read[ListRequest, ListResponse]("Event.List")

// ListRequest selects events. QueryOptions.Filter is an expression over Event. MinIndex and the options of
// pages are unused. The namespace may be "*".
type ListRequest struct {
	// Topics has the keys of each topic. AllKeys is each key, as the topic All is each topic. An empty map is
	// all events.
	Topics map[Topic][]string
	// After is the index of the log entry after whose events the answer begins. 0 begins with the oldest event
	// that the server keeps, and tells of no gap.
	After uint64
	// Skip is the number of events behind After that the reader has already.
	Skip uint64
	structs.QueryOptions
}

// AllKeys stands for each key of a topic.
const AllKeys = "*"

// ListResponse has events in their order. A reader repeats its request with After = Next and Skip = NextSkip.
type ListResponse struct {
	Events   []*Event
	Next     uint64
	NextSkip uint64 // 0 unless the events of one index do not fit into an answer
	Missed   *Gap   // nil: nothing was missed
	structs.QueryMeta
}

// Gap has the log indexes, inclusive, whose events a server no longer has, or never had. The reader has to
// read the rows again.
type Gap struct {
	From uint64
	To   uint64
}

// Event tells of one row that a log entry has changed.
type Event struct {
	Topic      Topic
	Type       string
	Key        string   // the ID of the row
	Namespace  string   // "" for rows without one
	FilterKeys []string // other IDs that select the event like its key
	Index      uint64   // of the log entry
	// Reason says in words why the row is as it is, "" where the row does not tell.
	Reason  string
	Payload []byte // JSON: an object with the row under the name of its kind
}

// Topic is the kind of the row of an event.
type Topic string

// All stands for each topic.
const All Topic = "*"

// The topics of the dialect.
const (
	Job        Topic = "Job"
	Evaluation Topic = "Evaluation"
	Allocation Topic = "Allocation"
	Deployment Topic = "Deployment"
	Node       Topic = "Node"
	NodePool   Topic = "NodePool"
	Service    Topic = "Service"
	CSIVolume  Topic = "CSIVolume"
	CSIPlugin  Topic = "CSIPlugin"
	HostVolume Topic = "HostVolume"
	ACLToken   Topic = "ACLToken"
	ACLPolicy  Topic = "ACLPolicy"
	ACLRole    Topic = "ACLRole"
)

// The topics of berth.
const (
	Claim      Topic = "Claim"      // of an allocation on a volume
	Attachment Topic = "Attachment" // of a volume to a node
	Instance   Topic = "Instance"   // of a plugin on a node
	Snapshot   Topic = "Snapshot"   // of a volume
	Operation  Topic = "Operation"  // a call of a plugin that is due for a volume
	Fence      Topic = "Fence"      // of a lost node
	Clock      Topic = "Clock"      // of a server
)

// Stream is the topic of the events that an agent makes about the stream itself. No server has them.
const Stream Topic = "Stream"

// Topics lists the topics of servers in the order of the documentation.
var Topics = []Topic{
	Job, Evaluation, Allocation, Deployment, Node, NodePool, Service, CSIVolume, CSIPlugin, HostVolume,
	ACLToken, ACLPolicy, ACLRole,
	Claim, Attachment, Instance, Snapshot, Operation, Fence, Clock,
}
