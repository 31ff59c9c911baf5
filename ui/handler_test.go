package ui

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/internal/rowfilter"
	"berth/structs"
	"berth/ui/static"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newPage returns the page over an API whose servers are the caller.
func newPage(t *testing.T) (http.Handler, *apitest.Caller) {
	t.Helper()
	servers := &apitest.Caller{}
	return pageOf(servers, &apitest.Agent{SelfIs: &api.AgentSelf{}}), servers
}

func pageOf(servers *apitest.Caller, agent api.Agent) http.Handler {
	logger := hclog.NewNullLogger()
	h := api.NewHandler(api.Config{Routes: areas.Routes(), Caller: servers, Agent: agent, Logger: logger})
	return NewHandler(Config{API: h, Agent: "agent-1", Logger: logger})
}

// loggedIn begins a session with a token and returns its cookie.
func loggedIn(h http.Handler, token string) (cookie string) {
	return cookieName + "=" + h.(*handler).sessions.Begin(sessionLogin{Token: token})
}

// matches reports a filter that the servers would reject for a row.
func matches(t *testing.T, filter string, row any) {
	t.Helper()
	if filter == "" {
		return
	}
	f, err := rowfilter.New(filter)
	if err == nil {
		_, err = f.Match(row)
	}
	if err != nil {
		t.Errorf("the filter %s: %v", filter, err)
	}
}

// get reads a path of the page. headers are names and values in turn.
func get(t *testing.T, h http.Handler, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	return send(t, h, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil), headers...)
}

// post sends a form as a browser does from the page itself.
func post(t *testing.T, h http.Handler, path string, form url.Values, headers ...string) (
	*http.Response, string,
) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://127.0.0.1")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return send(t, h, r, headers...)
}

func send(t *testing.T, h http.Handler, r *http.Request, headers ...string) (*http.Response, string) {
	t.Helper()
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	resp := w.Result()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// wants reports the texts that a page lacks.
func wants(t *testing.T, body string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("the page lacks %q:\n%s", text, body)
		}
	}
}

// anExec is the address of the terminal of a task.
const anExec = execPath + "?id=" + anAlloc + "&task=web"

// TestPage_HasTheSameStrictPolicyInAllViews: the view with the terminal has it, too. Its library would need
// an exception for styles (see static/terminal.js).
func TestPage_HasTheSameStrictPolicyInAllViews(t *testing.T) {
	const want = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
	h, _ := newPage(t)
	paths := []string{Root + "login", Root + "none", static.URL("page.css"), anExec}
	for _, v := range allViews() {
		paths = append(paths, strings.TrimSuffix(v.path, "{$}"))
	}
	for _, path := range paths {
		resp, _ := get(t, h, path)
		if got := resp.Header.Values("Content-Security-Policy"); len(got) != 1 || got[0] != want {
			t.Errorf("%s has the policy %q", path, got)
		}
	}
}

func TestPage_HasNoInlineScriptOrStyle(t *testing.T) {
	h, servers := newPage(t)
	apitest.Answer(servers, structs.CSIVolumeList, structs.CSIVolumeListResponse{})
	for _, path := range []string{"/ui/volumes", anExec} {
		resp, body := get(t, h, path)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s has %d, %v", path, resp.StatusCode, resp.Header)
		}
		for _, inline := range []string{
			" style=", "<style", "<script>", " onclick=", "javascript:", "hx-on", "http://", "https://",
		} {
			if strings.Contains(body, inline) {
				t.Errorf("%s has %q", path, inline)
			}
		}
	}
}

func TestPage_ShowsHostileNamesAsText(t *testing.T) {
	h, servers := newPage(t)
	apitest.Answer(servers, structs.CSIVolumeList, structs.CSIVolumeListResponse{
		Volumes: []*structs.CSIVolumeListStub{{
			ID:        `"><script>alert(1)</script>`,
			Namespace: "a&b",
			PluginID:  `javascript:alert(1)`,
			State:     "<b>",
		}},
	})
	_, body := get(t, h, "/ui/volumes?search=%22%3E%3Cimg%3E")
	for _, html := range []string{"<script>alert", "<b>", "<img>", `href="javascript:`} {
		if strings.Contains(body, html) {
			t.Errorf("the page has %s as HTML:\n%s", html, body)
		}
	}
	wants(t, body, "&lt;script&gt;alert(1)&lt;/script&gt;", "&lt;b&gt;", "a&amp;b",
		"/ui/volume?id=%22%3E%3Cscript%3Ealert%281%29%3C%2Fscript%3E&amp;namespace=a%26b")
}

func TestPage_RejectsOtherHostsAndOrigins(t *testing.T) {
	h, servers := newPage(t)
	r := httptest.NewRequest(http.MethodGet, "http://evil.example/ui/volumes", nil)
	resp, body := send(t, h, r)
	if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "http_allowed_hosts") {
		t.Errorf("a page of another name gets %d: %s", resp.StatusCode, body)
	}

	// It is also denied where the API, which has the same check, is not called.
	resp, _ = send(t, h, httptest.NewRequest(http.MethodGet, "http://evil.example"+static.URL("page.css"), nil))
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another name gets a file with %d", resp.StatusCode)
	}

	for _, header := range [][]string{
		{"Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"},
		{"Origin", "http://evil.example", "Sec-Fetch-Site", ""},
	} {
		resp, _ := post(t, h, "/ui/login", url.Values{"token": {"x"}}, header...)
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%v gets %d", header, resp.StatusCode)
		}
	}
	if calls := servers.Take(); len(calls) != 0 {
		t.Errorf("the servers were called: %v", calls)
	}
}

func TestPage_ServesItsFilesAndNoList(t *testing.T) {
	h, _ := newPage(t)
	for _, name := range []string{
		"page.css", "page.js", "htmx.min.js", "icon.svg",
		"terminal.js", "xterm.min.js", "xterm-fit.min.js", "xterm.css",
	} {
		resp, body := get(t, h, static.URL(name))
		if resp.StatusCode != http.StatusOK || body == "" ||
			!strings.Contains(resp.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s has %d, %v", name, resp.StatusCode, resp.Header)
		}
	}
	for _, path := range []string{"/ui/static/", "/ui/static/none", "/ui/static/../handler.go", "/ui/none"} {
		resp, _ := get(t, h, path)
		if resp.StatusCode == http.StatusOK {
			t.Errorf("%s has %d", path, resp.StatusCode)
		}
	}
	resp, _ := get(t, h, "/ui/static/page.css?v=old")
	if resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a browser keeps a file under a wrong name: %v", resp.Header)
	}
}

func TestPage_GivesTheScriptTheRowsAlone(t *testing.T) {
	h, servers := newPage(t)
	apitest.Answer(servers, structs.CSIVolumeList, structs.CSIVolumeListResponse{
		Volumes: []*structs.CSIVolumeListStub{{ID: "data", Namespace: "default"}},
	})
	_, body := get(t, h, "/ui/volumes?show=waiting", fromScript, "true")
	begin := `<div id="rows" hx-get="/ui/volumes?show=waiting"`
	if strings.Contains(body, "<html") || !strings.HasPrefix(body, begin) {
		t.Errorf("got %s", body)
	}
}

// A caller without a token sees the form, and sees the view with the right that its token has.
func TestPage_ReadsWithTheRightsOfItsCaller(t *testing.T) {
	h, servers := newPage(t)
	other, reader := loggedIn(h, "s.other"), loggedIn(h, "s.reader")
	apitest.On(servers, structs.CSIVolumeList, func(_ context.Context, q *structs.CSIVolumeListRequest) (
		*structs.CSIVolumeListResponse, error,
	) {
		if q.AuthToken != "s.reader" {
			return nil, structs.Deniedf("the token may not list volumes")
		}
		return &structs.CSIVolumeListResponse{
			Volumes: []*structs.CSIVolumeListStub{{ID: "data", Namespace: "default"}},
		}, nil
	})

	resp, body := get(t, h, "/ui/volumes?show=waiting")
	wants(t, body, "the token may not list volumes", `name="next" value="/ui/volumes?show=waiting"`,
		`type="password"`)
	if resp.StatusCode != http.StatusForbidden || strings.Contains(body, ">data<") {
		t.Errorf("without a token it has %d", resp.StatusCode)
	}
	resp, body = get(t, h, "/ui/volumes", "Cookie", other)
	if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "the token may not list volumes") ||
		!strings.Contains(body, "Log out") {
		t.Errorf("with another token it has %d: %s", resp.StatusCode, body)
	}
	resp, body = get(t, h, "/ui/volumes", "Cookie", reader)
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, ">data</a>") {
		t.Errorf("with the token it has %d: %s", resp.StatusCode, body)
	}
}
