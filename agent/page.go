package agent

import (
	"net/http"
	"strings"

	"github.com/hashicorp/go-hclog"

	"berth/ui"
)

// PageSettings are the settings of the agent's page.
type PageSettings struct {
	Enabled bool `hcl:"enabled"`
}

// withPage returns a handler that serves the page at /ui, and leads a browser there from /. All other
// requests go to the API. The sockets of tasks do not have the page.
func withPage(cfg *Config, api http.Handler, logger hclog.Logger) http.Handler {
	if !cfg.UI.Enabled {
		return api
	}

	page := ui.NewHandler(ui.Config{
		API:          api,
		Agent:        cfg.Name,
		Logger:       logger,
		AllowedHosts: cfg.httpHosts(),
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, ui.Root):
			page.ServeHTTP(w, r)
		case r.URL.Path+"/" == ui.Root || r.URL.Path == "/" && fromBrowser(r):
			http.Redirect(w, r, ui.Root, http.StatusFound)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// fromBrowser reports whether a browser requests a page. Programs get the answer of the API.
func fromBrowser(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}
