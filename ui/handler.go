package ui

import (
	"context"
	"net/http"
	"time"

	"github.com/a-h/templ"
	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/structs"
	"berth/ui/pages"
	"berth/ui/static"
)

// Root is the path of the page. All its paths begin with it.
const Root = "/ui/"

// policy allows a browser the files of the page, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// readTime bounds the reads of one view.
const readTime = 30 * time.Second

// Config has the parts of the page.
type Config struct {
	API    http.Handler // the HTTP API of the agent
	Agent  string       // the name of the agent
	Logger hclog.Logger
	// AllowedHosts are the names by which browsers may call the agent: see api.Config.
	AllowedHosts []string
}

// handler serves the page.
type handler struct {
	Config
	mux      *http.ServeMux
	origin   *http.CrossOriginProtection
	sessions *sessionStore
}

// NewHandler returns the handler of the paths below Root. It starts no goroutines except for its requests.
func NewHandler(cfg Config) http.Handler {
	h := &handler{
		Config:   cfg,
		mux:      http.NewServeMux(),
		origin:   http.NewCrossOriginProtection(),
		sessions: newSessionStore(DefaultSessionLimits, time.Now),
	}
	h.mux.Handle("GET "+static.Path, static.Handler())
	for _, v := range allViews() {
		h.mux.Handle("GET "+v.path, h.serveView(v))
	}
	handleLinks(h.mux, Root)
	h.mux.HandleFunc("GET "+livePath, h.serveLive)
	h.mux.HandleFunc("GET "+Root+"login", h.showLogin)
	h.mux.HandleFunc("GET "+logPath, h.streamLog)
	h.mux.HandleFunc("GET "+socketPath, h.serveSocket)
	h.mux.HandleFunc("GET "+actPath, h.confirmAction)
	h.mux.HandleFunc("POST "+actPath, h.act)
	h.mux.HandleFunc("POST "+Root+"login", h.login)
	h.mux.HandleFunc("POST "+jwtPath, h.loginByJWT)
	h.mux.HandleFunc("GET "+oidcPath, h.beginOIDC)
	h.mux.HandleFunc("GET "+backPath, h.completeOIDC)
	h.mux.HandleFunc("POST "+Root+"logout", h.logout)
	h.mux.Handle(Root, h.serveView(view{name: "Not found", serve: notFound}))
	return h
}

// ServeHTTP makes the checks that precede all paths: the same as those of the API.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "same-origin") // with none, a browser would not name the origin of a form
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cache-Control", "no-store") // a view has rows that only its caller may read

	err := api.CheckHost(h.AllowedHosts, r.Host)
	if err == nil {
		err = h.origin.Check(r)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}

	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	h.mux.ServeHTTP(w, r)
}

// call is one request of a browser.
type call struct {
	*handler
	w         http.ResponseWriter
	r         *http.Request
	session   *userSession // nil for none
	token     string       // "" for none
	namespace string       // of the request; * for all

	// sessionOver: the browser has the ID of a session that there is not, or no longer.
	sessionOver bool
}

func (h *handler) newCall(w http.ResponseWriter, r *http.Request) *call {
	c := &call{
		handler:   h,
		w:         w,
		r:         r,
		namespace: r.URL.Query().Get("namespace"),
	}
	if c.namespace == "" {
		c.namespace = structs.AllNamespaces
	}
	c.useSession()
	return c
}

// client returns a client of the API in a namespace, with the rights of the caller.
func (c *call) client(namespace string) *api.Client {
	cfg := api.ClientConfig{Namespace: namespace, Token: c.token}
	return api.NewClientVia(cfg, &inProcess{Handler: c.API, From: c.r})
}

// ctx returns the context of the reads of the call.
func (c *call) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.r.Context(), readTime)
}

// param returns a parameter of the address.
func (c *call) param(name string) string { return c.r.URL.Query().Get(name) }

// view is one path of the page.
type view struct {
	path string
	// name is that in the navigation and the title of the view.
	name string
	// inNavigation: the navigation has the view.
	inNavigation bool
	// topics are those of events after which the view is read again: see docs/events.md. "": it is not.
	topics string
	serve  func(*call) (*content, error)
}

// content is what a view shows. title is "" for the name of the view.
type content struct {
	title string
	pages.Content
}

// contentOf is what a view shows that has rows alone.
func contentOf(title string, rows templ.Component) *content {
	return &content{title, pages.Content{Rows: rows}}
}

// allViews are the views, in the order of the navigation.
func allViews() []view {
	return []view{
		{Root + "{$}", "What is wrong now", true, wrongTopics, showProblems},
		{slowPath, "What is wrong with volumes and allocations", false, wrongTopics, showSlowProblems},
		{Root + "jobs", "Jobs", true, "Job,Allocation", jobList.serve},
		{Root + "job", "Job", false, "Job,Allocation,Deployment,Evaluation,Claim", showJob},
		{Root + "allocations", "Allocations", true, "Allocation", allocList.serve},
		{Root + "allocation", "Allocation", false, "Allocation,Claim", showAlloc},
		{logsPath, "Log", false, "", showLog},
		{execPath, "Command", false, "", showExec},
		{Root + "nodes", "Nodes", true, "Node", nodeList.serve},
		{Root + "node", "Node", false, "Node,Allocation,Instance,CSIVolume", showNode},
		{Root + "volumes", "Volumes", true, "CSIVolume,Claim", volumeList.serve},
		{Root + "volume", "Volume", false, "CSIVolume,Claim,Attachment,Snapshot,Operation,Allocation", showVolume},
		{Root + "plugins", "Plugins", true, "CSIPlugin,Instance", pluginList.serve},
		{Root + "plugin", "Plugin", false, "CSIPlugin,Instance,CSIVolume", showPlugin},
		{Root + "topology", "Topology", true, "Node", showTopology},
	}
}

func notFound(c *call) (*content, error) {
	return nil, structs.NotFoundf("the page has no view %s; its views are in the navigation",
		structs.Printable(structs.Cut(c.r.URL.Path, structs.MaxName)))
}

// serveView serves a view. A request of the script gets the content without its frame.
func (h *handler) serveView(v view) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := h.newCall(w, r)
		shown, err := v.serve(c)
		if err != nil && c.token == "" && structs.IsKind(err, structs.KindDenied) {
			h.askForToken(c, err)
			return
		}
		status := http.StatusOK
		if err != nil {
			status = structs.KindOf(err).HTTPStatus()
			shown = contentOf("", pages.Fault(err.Error()))
		}
		c.render(status, v, shown)
	})
}
