// Package api has the HTTP handler of an agent and the Go client that calls it.
//
// Its rules:
//
//   - The resources that berth shares with Nomad follow the Nomad HTTP API under /v1. berth adds paths,
//     parameters and fields. Each route is declared once, with the call of the client (see NewEndpoint), in
//     the package of its area. Package areas lists them.
//   - A handler binds a request, calls one remote procedure and renders the result. It decides nothing.
//   - The kind of an error gives the status code and is in the header X-Berth-Error-Kind. The body is the
//     text of the error.
//   - A body with an unknown field is rejected with the path of the field (see internal/conf).
//   - A web page of another origin in a browser on the machine can change nothing.
//   - No answer shows a secret. Mount flags show as [REDACTED]. The operator socket alone shows gossip keys.
//     The values of variables and join tokens go to callers that Config.CheckSecrets accepts, and archives
//     of the state to callers that Config.CheckArchives accepts.
//
// The endpoints behind the Caller authorize and validate requests.
package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/auditlog"
	"berth/internal/keyring"
	"berth/internal/loadshed"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/jobaction"
	"berth/structs/nodecalls"
)

// Agent has the methods of the process that the handler needs in addition to remote procedures.
type Agent interface {
	Self() *AgentSelf
	Members(ctx context.Context) ([]*cluster.AgentMember, error)
	// Leave removes the agent's server from the cluster and then stops the agent. Without force it fails if
	// the cluster would lose its majority.
	Leave(ctx context.Context, force bool) error
	// ForceLeave marks a failed server as one that has left. prune removes it at once.
	ForceLeave(ctx context.Context, node string, prune bool) error
	// Join makes the agent's server join the gossip of the servers at some addresses, and returns the number of
	// addresses that answered. The error is unavailable if none did.
	Join(ctx context.Context, addrs []string) (int, error)
	// GossipKeyring shows or changes the keys with which the servers encrypt their gossip. key is "" for List.
	// The request is denied unless it came over the operator socket of a server.
	GossipKeyring(ctx context.Context, op cluster.GossipKeyOperation, key string) (
		*cluster.GossipKeyrings, error)
	// Reload reads the configuration of the agent again and applies its live settings. An invalid configuration
	// is a failed precondition, and changes nothing.
	Reload() error
	Health() *AgentHealth
	// Metrics returns the metrics of the process.
	Metrics() Metrics
	// SnapshotSave writes an archive of the whole state (see internal/snaparchive). token is the secret of the
	// caller, also in SnapshotRestore: the leader may ask for it.
	SnapshotSave(ctx context.Context, token string, w io.Writer) error
	// SnapshotRestore replaces the whole state by the state in an archive.
	SnapshotRestore(ctx context.Context, token string, r io.Reader, keys keyring.RestoreKeys) error
	// HostStats measures the machine of the agent's node. nodeID is "" or the ID of a node. The error is
	// not-found if the agent does not run that node.
	HostStats(ctx context.Context, nodeID string) (*nodecalls.HostStats, error)
	// NodeGC removes the directories of all allocations that have ended on the agent's node, and returns their
	// number. The ID and the error are as for HostStats.
	NodeGC(ctx context.Context, nodeID string) (int, error)
	// AllocStats measures the tasks of an allocation, or one of them. The error is not-found if the agent does
	// not run the allocation, invalid if it has no such task, and a failed precondition if that does not run.
	AllocStats(ctx context.Context, allocID, task string) (*nodecalls.AllocResourceUsage, error)
	// AllocChecks returns the last results of an allocation's checks by their IDs. The error is not-found if the
	// agent does not run the allocation.
	AllocChecks(allocID string) (map[string]*structs.CheckResult, error)
	// AllocExec finds a running task, "" for the only one or the leader, and returns the function that runs
	// commands in it, or an action. The error is not-found if the allocation is not on this agent, a conflict
	// if the task does not run, and invalid if there is no such task or action.
	AllocExec(at jobaction.Target) (ExecFunc, error)
	// AllocRestart restarts tasks, and does not wait. Here and in AllocSignal the error is not-found if the
	// allocation is not on this agent, invalid if it has no such task, and a conflict if that does not run.
	AllocRestart(allocID string, req AllocRestartRequest) error
	// AllocSignal sends a signal to tasks.
	AllocSignal(ctx context.Context, allocID string, req AllocSignalRequest) error
	// AllocGC removes the directory of an allocation that has ended. The error is not-found if the allocation is
	// not on this agent, and a conflict if it has not ended.
	AllocGC(ctx context.Context, allocID string) error
	// LogFiles returns the directory of a task's log files (see internal/logfile). kind is stdout or stderr.
	// Ended is the end of the task. The error is not-found if the allocation is not on this agent, and invalid
	// if it has no such task.
	LogFiles(allocID, task, kind string) (Dir, error)
	// AllocDir returns the directory of an allocation. The error is not-found if it is not on this agent.
	AllocDir(allocID string) (Dir, error)
	AgentInspector
}

// AgentSelf describes an agent.
type AgentSelf struct {
	Config map[string]any               `json:"config"`
	Member *cluster.AgentMember         `json:"member"`
	Stats  map[string]map[string]string `json:"stats"`
}

// AgentHealth is the health of an agent's client and server. A half that the agent does not run is nil.
type AgentHealth struct {
	Client *HalfHealth `json:"client,omitempty"`
	Server *HalfHealth `json:"server,omitempty"`
}

// HalfHealth is the health of one half.
type HalfHealth struct {
	OK      bool   `json:"ok"`
	Message string `json:"message"`
}

// Config has the dependencies and settings of a handler.
type Config struct {
	// Routes are those that the handler serves: see package areas.
	Routes []*Route
	Caller rpc.Caller // calls the servers
	// Own calls the servers for the agent itself: it finds the node of a request whose right was asked. Nil:
	// Caller.
	Own    rpc.Caller
	Agent  Agent
	Logger hclog.Logger
	// AllowedHosts lists the names by which clients may call the agent, in addition to addresses and
	// localhost. *.example.com allows every name below example.com.
	AllowedHosts []string
	// Connect opens a connection to the HTTP port of the agent of a node. Nil connects without TLS.
	Connect NodeConnect
	// CheckSecrets returns an error if the caller of a request may not read and write the values of variables,
	// nor make join tokens.
	// Nil: every caller may.
	CheckSecrets func(*http.Request) error
	// CheckArchives returns an error if the caller of a request may not save or restore an archive of the
	// state. Nil: every caller may.
	CheckArchives func(*http.Request) error
	// ACL says that the agent has access control in its configuration. The agent asks the servers for the rights
	// of its callers in any case. With ACL it denies also while a server is older than access control.
	ACL bool
	// OpenFile keeps the last answer of the servers whether access control is off. "": nothing is kept.
	OpenFile string
	// Joined says that the agent is a member of a cluster with certificates. Before the first answer of the
	// servers it denies.
	Joined bool
	// HidesTokens says that Connect proves the agent of a node by its certificate, and this agent to it as that
	// of a server: a request is forwarded without the token of its caller.
	HidesTokens bool
	// Sessions counts the requests that have taken over their connections: net/http does not wait for them.
	// Their contexts end with the base context of the server. It may be nil.
	Sessions *sync.WaitGroup
	// BodyIdle is the time within which the next part of a body must arrive. Default: 30s.
	BodyIdle time.Duration
	// StreamStall is the time within which a client takes the next bytes of a file or log. Default: 1m.
	StreamStall time.Duration
	// MaxForwarded bounds the commands in tasks that run at other agents. Default: 256.
	MaxForwarded int
	// Name is the agent's name, and Audit its audit log. Nil: it has none.
	Name  string
	Audit *auditlog.Log
}

// anyPath is the pattern of a request without a route. A mux gives it for each request that no other pattern
// takes, so methodsAt can tell such a request.
const anyPath = "/"

// handler serves the routes.
type handler struct {
	Config
	mux       *http.ServeMux
	pools     *http.ServeMux // of the routes of one node pool
	families  []family
	bodies    *loadshed.Budget // bytes of all bodies in flight
	origin    *http.CrossOriginProtection
	streaming *streamSlots // of the files, logs and events that are being sent
	// forwarded has a value for each command that runs at another agent.
	forwarded chan struct{}
	wasOpen   openness
}

// NewHandler returns the handler of the API. It starts no goroutines except for its requests.
func NewHandler(cfg Config) http.Handler {
	h := &handler{
		Config: cfg,
		mux:    http.NewServeMux(),
		pools:  http.NewServeMux(),
		bodies: loadshed.NewBudget(structs.MaxHTTPBodies),
		origin: http.NewCrossOriginProtection(),

		streaming: newStreamSlots(structs.MaxFileStreams, MaxOwnStreams),
	}

	h.Own = cmp.Or(h.Own, h.Caller)
	if h.Connect == nil {
		h.Connect = connectPlain
	}

	h.wasOpen.load(h.OpenFile, !h.ACL && !h.Joined, h.Logger)
	if h.ACL {
		h.wasOpen.Store(false)
	}
	h.StreamStall = cmp.Or(h.StreamStall, streamStall)
	h.MaxForwarded = cmp.Or(h.MaxForwarded, maxForwarded)
	h.forwarded = make(chan struct{}, h.MaxForwarded)
	if h.Sessions == nil {
		h.Sessions = &sync.WaitGroup{}
	}

	h.families = familiesOf(h.Routes)
	for _, r := range h.Routes {
		for _, method := range strings.Fields(r.Methods) {
			h.muxOf(r.Path).Handle(method+" "+r.Path, h.serve(*r))
		}
	}

	h.mux.HandleFunc(anyPath, h.serveUnknown)
	h.pools.HandleFunc(anyPath, h.serveUnknown)
	return http.HandlerFunc(h.serveHTTP)
}

// serveHTTP makes the checks that precede all routes, and turns a panic into an answer.
func (h *handler) serveHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	path := r.URL.Path
	// The request of the caller gets the context: the mux notes the pattern of the route in it.
	*r = *NoteOrigin(w, r, h.Name)
	// It knows what was sent at the end, for the log of accesses.
	m := &answerMeter{ResponseWriter: w}
	defer h.logAccess(m, r, path, start)
	defer func() {
		// It runs before logAccess, so that the log has the status 500.
		p := recover()
		if p == http.ErrAbortHandler {
			panic(p) // net/http closes the connection
		}

		if p != nil {
			h.Logger.Error("request panicked",
				"method", r.Method,
				"path", path,
				"panic", p,
				"stack", string(debug.Stack()))

			err := structs.Internalf("serving %s panicked: %v", shownPath(r), p)
			renderError(m, err)
		}
	}()

	// The bound counts from the first byte: an answer before the body is read needs it as well.
	body := boundBody(m, r, h.bodies, h.BodyIdle)
	defer body.Release()
	// A page of another name that resolves to this machine (DNS rebinding) has its own name in Host.
	err := CheckHost(h.AllowedHosts, r.Host)
	if err != nil {
		renderError(m, NoteDenied(r.Context(), h.Audit, err))
		return
	}

	// It compares the headers that browsers alone send, so programs pass.
	err = h.origin.Check(r)
	if err != nil {
		err = structs.Deniedf("a page of another origin may not change anything here: %w", err)
		renderError(m, NoteDenied(r.Context(), h.Audit, err))
		return
	}

	escapeID(h.families, r.URL, r.Method)
	h.muxOf(r.URL.Path).ServeHTTP(m, r)
}

// muxOf returns the mux of a path.
func (h *handler) muxOf(path string) *http.ServeMux {
	if strings.HasPrefix(path, PoolPrefix) {
		return h.pools
	}
	return h.mux
}

// serve returns the http.Handler of a route.
func (h *handler) serve(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The route is known only now. Until here the body had the default bound.
		if b, ok := r.Body.(*requestBody); ok {
			b.SetMost(route.mostBody())
		}

		c := &Call{handler: h, Writer: w, Request: r}
		answer, err := serveAuthorized(c, route)

		// A list is written while it is read. A fault in its first page is still an answer with a status.
		rows, streamed := answer.(rowStream)
		if streamed && err == nil {
			err = c.renderRows(rows)
		}

		switch {
		case err != nil &&
			r.Context().Err() != nil &&
			!errors.As(err, new(StatusError)):
			// An error with a status of its own goes to the client: the body did not arrive in time.
			h.Logger.Debug("client disconnected",
				"path", r.URL.Path,
				"error", err)

		case err != nil && c.Began:
			h.Logger.Warn("failed to finish a response",
				"path", r.URL.Path,
				"error", err)
			panic(http.ErrAbortHandler) // the client must not take the part for the whole

		case err != nil:
			renderError(w, err)
		case c.Began:
		case isNil(answer):
			renderError(w, structs.NotFoundf("there is nothing at %s", shownPath(r)))
		default:
			c.Render(http.StatusOK, answer)
		}
	})
}

// serveAuthorized serves a route for a caller that may use it. stop ends the goroutine that asks for the
// right again while the request lasts.
func serveAuthorized(c *Call, route Route) (answer any, err error) {
	stop, err := authorize(c, route)
	if err != nil {
		return nil, err
	}
	defer stop()

	if route.LeadsOn {
		return route.serve(c)
	}
	r := AuditedRequest{Needs: route.Needs, Caller: c.caller}
	if isAboutAlloc(route.Path) {
		r.AllocID = c.ID()
	}
	return ServeAudited(c.Ctx(), c.Audit, r, func() (any, error) { return route.serve(c) })
}

// shownPath returns the path of a request for an error text. The path is of any client, so a text shows
// neither control characters nor megabytes of it.
func shownPath(r *http.Request) string {
	return structs.Printable(structs.Cut(r.URL.Path, structs.MaxName))
}

// isNil reports whether an answer is a nil pointer.
func isNil(answer any) bool {
	v := reflect.ValueOf(answer)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// serveUnknown answers a request without a route. The mux of net/http would answer in plain text without a
// kind.
func (h *handler) serveUnknown(w http.ResponseWriter, r *http.Request) {
	method := structs.Cut(r.Method, structs.MaxQuoted)
	methods := h.methodsAt(r)
	if len(methods) == 0 && isEmptyEnterprise(r) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if len(methods) == 0 {
		notFound := structs.NotFoundf("there is no route %s %s in this API", method, shownPath(r))
		renderError(w, cmp.Or(rejectEnterprise(r), notFound))
		return
	}
	allowed := strings.Join(methods, ", ")
	w.Header().Set("Allow", allowed)
	w.Header().Set(HeaderErrorKind, string(structs.KindInvalid))
	text := fmt.Sprintf("%s does not allow the method %s, only %s",
		shownPath(r), method, allowed)
	http.Error(w, text, http.StatusMethodNotAllowed)
}

// methodsAt returns the methods for which the path of a request has a route. A mux has no list of its
// patterns, so each method is tried.
func (h *handler) methodsAt(r *http.Request) (methods []string) {
	for _, method := range strings.Fields(Get + " " + Put + " " + Remove) {
		_, pattern := h.muxOf(r.URL.Path).Handler(&http.Request{
			Method: method,
			Host:   r.Host,
			URL:    r.URL,
		})
		if pattern != anyPath {
			methods = append(methods, method)
		}
	}
	return methods
}

// poolPrefix is the prefix of the routes of one node pool. They have a mux of their own, because
// /v1/node/pool/{id} and /v1/node/{id}/purge both fit /v1/node/pool/purge. No node has the ID "pool".
const PoolPrefix = "/v1/node/pool/"
