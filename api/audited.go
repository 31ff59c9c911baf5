package api

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"time"

	"berth/internal/auditlog"
	"berth/internal/opsocket"
	"berth/internal/pki"
	"berth/structs"
	"berth/structs/access"
)

// This file makes the origins of HTTP requests for the audit logs of all agents that serve them, and the
// events of the routes that an agent serves itself. Remote procedures have the events of the server that
// serves them: see endpoints/audit.

// HeaderRequestID has the ID of a request: in the answer, and in a request that another agent has passed on.
const HeaderRequestID = "X-Berth-Request-Id"

// The bounds of texts in an event, in bytes.
const (
	maxEndpoint = 1024
	maxError    = 512
)

// uuid matches the IDs of requests.
var uuid = regexp.MustCompile("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

// NoteOrigin returns the request with its origin in the context, and sets the header with its ID in the
// answer and in what is passed on of the request.
func NoteOrigin(w http.ResponseWriter, r *http.Request, agent string) *http.Request {
	o := &structs.Origin{
		RequestID: idOf(r),
		Operation: auditlog.Text(r.Method, structs.MaxQuoted),
		Endpoint:  auditlog.Text(r.URL.Path, maxEndpoint),
		Remote:    r.RemoteAddr,
		Socket:    opsocket.Marked(r.Context()),
		Agent:     agent,
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		id, err := pki.IdentityOf(r.TLS.PeerCertificates[0])
		if err == nil {
			o.Certificate = id.String()
		}
	}

	w.Header().Set(HeaderRequestID, o.RequestID)
	r.Header.Set(HeaderRequestID, o.RequestID)
	return r.WithContext(auditlog.WithOrigin(r.Context(), o))
}

// idOf returns a new ID, or the ID of a request that another agent has passed on. With TLS only a server can:
// another caller could write lines under the ID of somebody else's request.
func idOf(r *http.Request) string {
	passedOn := r.TLS == nil && r.Header.Get(HeaderPassedOn) != "" || isFromServer(r)
	id := r.Header.Get(HeaderRequestID)
	if passedOn && uuid.MatchString(id) {
		return id
	}
	return structs.NewID()
}

// AuditedRequest is a request of a route that the agent serves itself.
type AuditedRequest struct {
	Needs   access.Needs
	Caller  access.Caller // "" without a token
	AllocID string        // "": it is about no allocation
}

// ServeAudited runs the handler of a route between the two events of its change, if it is one by its right.
// It does not run the handler if an enforced sink does not take the first event.
func ServeAudited(ctx context.Context, log *auditlog.Log, r AuditedRequest,
	handle func() (any, error)) (any, error) {
	if log == nil || !r.Needs.Changes() {
		return handle()
	}

	start := time.Now()
	e := auditEvent(ctx, r)
	err := log.Begin(ctx, e)
	if err != nil {
		return nil, err
	}
	answer, err := handle()
	e.Duration = float64(time.Since(start).Microseconds()) / 1000
	setResult(e, err)
	log.End(ctx, e)
	return answer, err
}

// NoteDenied records that the agent itself denies a request, and returns the error. Other errors are no
// events.
func NoteDenied(ctx context.Context, log *auditlog.Log, err error) error {
	if log != nil && structs.IsKind(err, structs.KindDenied) {
		e := auditEvent(ctx, AuditedRequest{})
		setResult(e, err)
		log.Deny(ctx, e)
	}
	return err
}

func setResult(e *auditlog.Event, err error) {
	e.Result = "ok"
	if err == nil {
		return
	}
	e.Result = string(structs.KindOf(err))
	e.Error = auditlog.Text(err.Error(), maxError)
	if structs.IsKind(err, structs.KindDenied) {
		e.Kind = auditlog.KindDenied
	}
}

func auditEvent(ctx context.Context, r AuditedRequest) *auditlog.Event {
	e := &auditlog.Event{
		Kind:   auditlog.KindChange,
		Caller: auditlog.CallerOf(r.Caller),
	}
	if r.AllocID != "" {
		id := auditlog.Text(r.AllocID, structs.MaxName)
		e.Objects = []auditlog.Object{{Type: "allocation", ID: id}}
	}

	o := auditlog.OriginFrom(ctx)
	if o == nil {
		return e
	}
	e.RequestID = o.RequestID
	e.Operation = o.Operation
	e.Endpoint = o.Endpoint
	e.Remote = o.Remote
	e.TakenBy = o.Agent
	e.Caller.Certificate = o.Certificate
	e.Caller.Socket = o.Socket
	return e
}

// isAboutAlloc reports whether the path of a route has the ID of an allocation.
func isAboutAlloc(path string) bool { return strings.HasPrefix(path, "/v1/client/") }
