package auditlog

import (
	"encoding/json"
	"strings"
	"time"

	"berth/structs"
	"berth/structs/access"
)

// The stages of an event, by the names of the dialect.
const (
	Received = "OperationReceived" // the change is about to be made
	Complete = "OperationComplete" // it has been made or has failed, or the call has changed nothing
)

// The kinds of an event.
const (
	KindChange = "change"
	// KindForced is an action without the proof that it is safe, or one that only root may order.
	KindForced = "forced"
	KindDenied = "denied"
)

// MaxLine bounds a line, in bytes. An event with more loses its rows.
const MaxLine = 64 << 10

// Event is one line. An empty field is left out.
type Event struct {
	Time      time.Time `json:"time"`
	Stage     string    `json:"stage"`
	Kind      string    `json:"kind"`
	RequestID string    `json:"request_id,omitempty"`
	Agent     string    `json:"agent"`            // the name of the agent that writes the line
	Method    string    `json:"method,omitempty"` // the remote procedure; "" of a route of the agent itself
	Operation string    `json:"operation,omitempty"`
	Endpoint  string    `json:"endpoint,omitempty"`
	Caller    Caller    `json:"caller"`
	// Remote is the address of the HTTP client, as the agent TakenBy says. Nothing else proves it.
	Remote  string `json:"remote_address,omitempty"`
	TakenBy string `json:"taken_by,omitempty"`
	// HandedOnBy is the machine that has sent the request to this agent by RPC: the URI in its certificate.
	HandedOnBy  string   `json:"handed_on_by,omitempty"`
	Namespace   string   `json:"namespace,omitempty"`
	Objects     []Object `json:"objects,omitempty"`
	MoreObjects int      `json:"more_objects,omitempty"` // that Objects does not have
	Reason      string   `json:"reason,omitempty"`       // as the caller gives it
	DryRun      bool     `json:"dry_run,omitempty"`      // nothing is changed
	// Result is ok, or the kind of the error; "" at the stage Received.
	Result   string  `json:"result,omitempty"`
	Error    string  `json:"error,omitempty"`
	Index    uint64  `json:"raft_index,omitempty"`
	Duration float64 `json:"duration_ms,omitempty"`
	// Before and After have the rows of volumes and claims that the request is about. A row that does not exist
	// is left out.
	Before []any `json:"before,omitempty"`
	After  []any `json:"after,omitempty"`
	// Truncated says that the rows were too large for a line.
	Truncated bool `json:"truncated,omitempty"`
	// Omitted counts the calls before this one that were denied, or needed no token and changed nothing, and
	// have no line: there were too many.
	Omitted uint64 `json:"omitted,omitempty"`
}

// Caller is the sender of a request. A caller without a token has none of the first three fields.
type Caller struct {
	Accessor string `json:"accessor,omitempty"` // of the token
	Name     string `json:"name,omitempty"`     // of the token
	Type     string `json:"type,omitempty"`     // of the token
	// Identity is the workload of a signed token, also of one that has ended.
	Identity *Identity `json:"identity,omitempty"`
	// Certificate is the URI of the identity in the certificate of the HTTP client, or of a machine that calls
	// by RPC.
	Certificate string `json:"certificate,omitempty"`
	Socket      bool   `json:"operator_socket,omitempty"`
	Node        string `json:"node,omitempty"` // a node that acts by its secret
}

// Identity names a task or a service of an allocation.
type Identity struct {
	Alloc     string `json:"allocation"`
	Namespace string `json:"namespace"`
	Job       string `json:"job"`
	Group     string `json:"group,omitempty"`
	Task      string `json:"task,omitempty"`
	Service   string `json:"service,omitempty"`
}

// CallerOf returns the sender of a request by its token.
func CallerOf(c access.Caller) Caller {
	is := Caller{
		Accessor: c.AccessorID,
		Name:     Text(c.Name, structs.MaxName),
		Type:     c.Type,
	}
	if w := c.Identity; w != nil {
		is.Identity = &Identity{
			Alloc:     Text(w.AllocID, structs.MaxName),
			Namespace: Text(w.Namespace, structs.MaxName),
			Job:       Text(w.JobID, structs.MaxName),
			Group:     Text(w.Group, structs.MaxName),
			Task:      Text(w.Task, structs.MaxName),
			Service:   Text(w.Service, structs.MaxName),
		}
	}
	return is
}

// Object is one thing that a request names.
type Object struct {
	Namespace string `json:"namespace,omitempty"` // if it is not the event's
	Type      string `json:"type"`
	ID        string `json:"id"`
}

// Text returns a text of a caller for an event: at most about so many bytes on one line, without characters
// that a terminal that shows the log would obey.
func Text(s string, most int) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(structs.Printable(structs.Cut(s, most)))
}

// line returns the line of the event, with its end.
func (e *Event) line() ([]byte, error) {
	b, err := json.Marshal(e)
	if err == nil && len(b) >= MaxLine {
		short := *e
		short.Before = nil
		short.After = nil
		short.Truncated = true
		b, err = json.Marshal(&short)
	}
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}
