package ui

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"strings"

	"berth/structs"
	"berth/ui/pages"
)

// fromScript is the header of a request of the script for a part of the page.
const fromScript = "HX-Request"

// render writes a view. The whole is drawn before a byte is sent, so a fault still has its status.
func (c *call) render(status int, v view, shown *content) {
	f := pages.Frame{
		Title:     cmp.Or(shown.title, v.name),
		Agent:     c.Agent,
		Namespace: c.namespace,
		LoggedIn:  c.token != "",
		Here:      c.r.URL.RequestURI(),
		Topics:    v.topics,
	}
	for _, p := range allViews() {
		if p.inNavigation {
			to := strings.TrimSuffix(p.path, "{$}")
			f.Views = append(f.Views, pages.Link{Name: p.name, To: to, Current: p.path == v.path})
		}
	}

	drawn := pages.Page(f, shown.Content)
	if c.r.Header.Get(fromScript) != "" {
		drawn = pages.Rows(f, shown.Content)
	}
	var page bytes.Buffer
	// A browser that has gone is no fault of the view.
	err := drawn.Render(context.WithoutCancel(c.r.Context()), &page)
	if err != nil {
		c.Logger.Error("failed to draw a view", "path", c.r.URL.Path, "error", err)
		http.Error(c.w, "drawing the view failed; the log of the agent has the reason",
			structs.KindInternal.HTTPStatus())
		return
	}

	c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	c.w.Header().Set("Vary", fromScript)
	c.w.WriteHeader(status)
	_, _ = page.WriteTo(c.w) // it fails only if the browser has gone
}
