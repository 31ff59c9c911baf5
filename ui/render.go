package ui

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"berth/structs"
	"berth/ui/views"
)

//go:embed templates
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// staticPath is the path of the files that never change within a version.
const staticPath = Root + "static/"

// templates has one template for each kind of content, with the frame around it.
type templates struct {
	byName map[string]*template.Template
}

// parseTemplates reads the templates in the binary. Their faults are those of the program.
func parseTemplates() *templates {
	functions := template.FuncMap{"static": staticURL}
	frame := template.Must(template.New("frame.html").Funcs(functions).
		ParseFS(templateFiles, "templates/frame.html", "templates/parts.html"))

	all := &templates{byName: map[string]*template.Template{}}
	names, err := fs.Glob(templateFiles, "templates/views/*.html")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for _, name := range names {
		t := template.Must(template.Must(frame.Clone()).ParseFS(templateFiles, name))
		all.byName[strings.TrimSuffix(path.Base(name), ".html")] = t
	}
	return all
}

// frame is the data of the frame around a view.
type frame struct {
	Title     string
	Agent     string
	Views     []link
	Namespace string
	LoggedIn  bool
	Here      string // the path and the parameters of the view
	Topics    string // of events after which it is read again; "" for none
	Data      any
}

// link is an entry of the navigation.
type link struct {
	Name    string
	To      string
	Current bool
}

// fromScript is the header of a request of the script for a part of the page.
const fromScript = "HX-Request"

// render writes a view. The whole is drawn before a byte is sent, so a fault still has its status.
func (c *call) render(status int, v view, shown *content) {
	f := frame{
		Title:     cmp.Or(shown.Title, v.name),
		Agent:     c.Agent,
		Namespace: c.namespace,
		LoggedIn:  c.token != "",
		Here:      c.r.URL.RequestURI(),
		Topics:    v.topics,
		Data:      shown.Data,
	}
	for _, p := range pages() {
		if p.inNavigation {
			to := strings.TrimSuffix(p.path, "{$}")
			f.Views = append(f.Views, link{p.name, to, p.path == v.path})
		}
	}

	part := "frame.html"
	if c.r.Header.Get(fromScript) != "" {
		part = "rows"
	}
	var page bytes.Buffer
	err := c.templates.byName[shown.Template].ExecuteTemplate(&page, part, f)
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

// digests has the digest of each static file, by its name.
var digests = func() map[string]string {
	all := map[string]string{}
	files, err := fs.ReadDir(staticFiles, "static")
	if err != nil {
		panic(err) // the binary lacks the files
	}
	for _, f := range files {
		b, err := staticFiles.ReadFile("static/" + f.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(b)
		all[f.Name()] = hex.EncodeToString(sum[:8])
	}
	return all
}()

// staticURL returns the address of a static file, which is another one when the file changes.
func staticURL(name string) string { return staticPath + name + "?v=" + digests[name] }

// serveStatic serves the static files. A browser keeps a file that it names by its digest.
func serveStatic() http.Handler {
	files := http.StripPrefix(Root, http.FileServerFS(staticFiles))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		digest := digests[strings.TrimPrefix(r.URL.Path, staticPath)]
		switch {
		case digest == "":
			http.NotFound(w, r) // also for the list of the files
			return
		case r.URL.Query().Get("v") == digest:
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		files.ServeHTTP(w, r)
	})
}

// listing is the data of a list of rows.
type listing struct {
	Table views.Table
	Form  form
	First string // the path of the first page, "" if this is it
	Next  string // the path of the next page, "" for none
}
