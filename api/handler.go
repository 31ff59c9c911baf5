// Package api is the HTTP API: the handler that serves it and the Go client that calls it.
//
// Its laws:
//
//   - Under /v1 it speaks the dialect of the Nomad HTTP API wherever both have the resource; what berth
//     adds is added as paths, parameters and fields. Each route is declared once, together
//     with the client's call (see route).
//   - A handler binds a request, calls one remote procedure and renders its answer; it decides nothing.
//   - An error's kind gives the status code and travels in the header X-Berth-Error-Kind; the body is its
//     text, plain.
//   - What a body says and berth does not know is refused with its path (see internal/strictjson).
//   - A web page of another origin that a browser on the machine happens to show can change nothing.
//   - No answer shows a secret; mount flags show as [REDACTED].
//
// Who may do what, and whether it makes sense, is left to the endpoints behind the Caller.
package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/loadshed"
	"berth/rpc"
	"berth/structs"
)

// Agent is what the handler needs of the process that serves it, beyond remote procedures.
type Agent interface {
	Self() *AgentSelf
	Members(ctx context.Context) ([]*structs.AgentMember, error)
	// Leave has the agent's server leave the cluster, and then the agent end. Without force it is refused
	// where the cluster would lose its majority with the server.
	Leave(ctx context.Context, force bool) error
	// ForceLeave has a server that has failed count as one that has left; prune forgets it at once.
	ForceLeave(ctx context.Context, node string, prune bool) error
	Health() *AgentHealth
	// Metrics gathers the metrics of the process.
	Metrics() Metrics
	// SnapshotSave writes an archive of the whole state (see internal/snaparchive).
	SnapshotSave(ctx context.Context, w io.Writer) error
	// SnapshotRestore replaces the whole state by what an archive holds.
	SnapshotRestore(ctx context.Context, r io.Reader) error
	// HostStats measures the machine of the agent's node. nodeID is "" or the ID of a node; not-found when
	// the agent does not run that node.
	HostStats(ctx context.Context, nodeID string) (*structs.HostStats, error)
	// LogFiles is the directory of a task's rotated log files, named <task>.<kind>.<number>, kind being
	// stdout or stderr; not-found when the allocation is not on this agent, invalid when it has no such task.
	LogFiles(allocID, task, kind string) (dir string, err error)
}

// AgentSelf is what an agent says of itself.
type AgentSelf struct {
	Config map[string]any               `json:"config"`
	Member *structs.AgentMember         `json:"member"`
	Stats  map[string]map[string]string `json:"stats"`
}

// AgentHealth is the health of the halves that an agent has.
type AgentHealth struct {
	Client *HalfHealth `json:"client,omitempty"`
	Server *HalfHealth `json:"server,omitempty"`
}

// HalfHealth is the health of one half.
type HalfHealth struct {
	OK      bool   `json:"ok"`
	Message string `json:"message"`
}

// Config is what a handler is made of.
type Config struct {
	Caller rpc.Caller // reaches the servers
	Agent  Agent
	Logger hclog.Logger
	// AllowedHosts are the names, beside addresses and localhost, by which clients may call the agent.
	// *.example.com allows every name below example.com.
	AllowedHosts []string
	// BodyIdle is how long the next part of a body may take to arrive. Default: 30s.
	BodyIdle time.Duration
}

// handler serves the routes.
type handler struct {
	Config
	mux     *http.ServeMux
	paths   *http.ServeMux      // the same patterns without methods, to tell 405 from 404
	methods map[string][]string // of each pattern
	proxy   http.Handler        // to other agents
	bodies  *loadshed.Budget    // bytes of all bodies under way
	origin  *http.CrossOriginProtection
}

// NewHandler serves the API. It starts no goroutines beyond those of its requests.
func NewHandler(cfg Config) http.Handler {
	h := &handler{
		Config:  cfg,
		mux:     http.NewServeMux(),
		paths:   http.NewServeMux(),
		methods: map[string][]string{},
	}
	h.proxy, h.origin = newProxy(), http.NewCrossOriginProtection()
	h.bodies = loadshed.NewBudget(structs.MaxHTTPBodies)
	for _, r := range Routes() {
		if h.methods[r.Path] == nil {
			h.paths.HandleFunc(r.Path, func(http.ResponseWriter, *http.Request) {})
		}
		for _, method := range strings.Fields(r.Methods) {
			h.methods[r.Path] = append(h.methods[r.Path], method)
			h.mux.Handle(method+" "+r.Path, h.serve(r))
		}
	}
	h.mux.HandleFunc("/", h.unknown)
	return http.HandlerFunc(h.serveHTTP)
}

func (h *handler) serveHTTP(w http.ResponseWriter, r *http.Request) {
	start, path := time.Now(), r.URL.Path
	m := &answerMeter{ResponseWriter: w}
	defer h.logAccess(m, r, path, start)
	defer func() {
		if p := recover(); p != nil {
			h.Logger.Error("a request panicked", "method", r.Method, "path", path, "panic", p, "stack",
				string(debug.Stack()))
			renderError(m, structs.Errorf(structs.KindInternal, "serving %s panicked: %v", shownPath(r), p))
		}
	}()
	body := h.boundBody(m, r)
	defer body.release()
	if err := h.checkHost(r.Host); err != nil {
		renderError(m, err)
		return
	}
	if err := h.origin.Check(r); err != nil {
		renderError(m, structs.Errorf(structs.KindDenied,
			"a page of another origin may not change anything here: %w", err))
		return
	}
	escapeID(r.URL)
	h.mux.ServeHTTP(m, r)
}

// serve makes the http.Handler of a route.
func (h *handler) serve(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, ok := r.Body.(*requestBody); ok {
			b.most = route.mostBody()
		}
		c := &call{h: h, w: w, r: r}
		answer, err := route.serve(c)
		if rows, ok := answer.(rowStream); ok && err == nil {
			answer, err = nil, c.renderRows(rows)
			if err == nil {
				return
			}
		}
		switch {
		case err != nil && r.Context().Err() != nil && !errors.As(err, new(withStatus)):
			// A request that has an answer of its own was not given up: its body did not arrive in time.
			h.Logger.Debug("a client went away", "path", r.URL.Path, "error", err)
		case err != nil && c.began:
			h.Logger.Warn("an answer broke off", "path", r.URL.Path, "error", err)
		case err != nil:
			renderError(w, err)
		case c.began:
		case isNil(answer):
			renderError(w, structs.Errorf(structs.KindNotFound, "there is nothing at %s", shownPath(r)))
		default:
			c.render(answer)
		}
	})
}

// shownPath is the path of a request as an error shows it.
func shownPath(r *http.Request) string {
	return structs.Printable(structs.Cut(r.URL.Path, structs.MaxName))
}

// isNil reports whether an endpoint came back with a pointer to nothing.
func isNil(answer any) bool {
	v := reflect.ValueOf(answer)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// unknown answers what no route is for.
func (h *handler) unknown(w http.ResponseWriter, r *http.Request) {
	_, pattern := h.paths.Handler(r)
	allowed, known := h.methods[pattern]
	if !known {
		renderError(w, structs.Errorf(structs.KindNotFound, "there is no route %s %s in this API",
			structs.Cut(r.Method, structs.MaxQuoted), shownPath(r)))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	w.Header().Set(headerErrorKind, string(structs.KindInvalid))
	http.Error(w, fmt.Sprintf("%s cannot be asked of %s, only %s", structs.Cut(r.Method, structs.MaxQuoted),
		shownPath(r), strings.Join(allowed, ", ")), http.StatusMethodNotAllowed)
}
