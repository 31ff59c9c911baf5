package ui

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"berth/api"
	"berth/api/apitest"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/event"
)

// cookieOf returns the cookie of the session that an answer begins, as a browser sends it.
func cookieOf(resp *http.Response) string {
	for _, c := range resp.Cookies() {
		if c.Name == cookieName && c.Value != "" {
			return c.Name + "=" + c.Value
		}
	}
	return ""
}

// tokenOf returns the token of the session that an answer begins, "" for none.
func tokenOf(h http.Handler, resp *http.Response) string {
	session := h.(*handler).sessions.Use(strings.TrimPrefix(cookieOf(resp), cookieName+"="))
	if session == nil {
		return ""
	}
	return session.Token
}

// knowTokens makes the servers know some tokens. It returns the accessors of those that are deleted.
func knowTokens(servers *apitest.Caller, secrets ...string) (deleted *[]string) {
	deleted = new([]string)
	apitest.On(servers, access.TokenGet, func(_ context.Context, q *access.TokenGetRequest) (
		*access.TokenGetResponse, error,
	) {
		for _, s := range secrets {
			if q.AuthToken == s {
				return &access.TokenGetResponse{Token: &access.Token{AccessorID: "accessor of " + s}}, nil
			}
		}
		return nil, structs.Deniedf("there is no such token")
	})
	apitest.On(servers, access.TokenDelete, func(_ context.Context, q *access.TokenDeleteRequest) (
		*structs.Empty, error,
	) {
		*deleted = append(*deleted, q.AccessorID+" by "+q.AuthToken)
		return &structs.Empty{}, nil
	})
	return deleted
}

func TestLogin_KeepsATokenThatTheServersKnow(t *testing.T) {
	h, servers := newPage(t)
	knowTokens(servers, "s.good")

	form := url.Values{"token": {" s.good\n"}, "next": {"/ui/volumes?show=waiting"}}
	resp, _ := post(t, h, "/ui/login", form)
	cookie := resp.Header.Get("Set-Cookie")
	if resp.StatusCode != http.StatusSeeOther || tokenOf(h, resp) != "s.good" ||
		!strings.HasSuffix(cookie, "; Path=/ui; HttpOnly; SameSite=Strict") || strings.Contains(cookie, "s.good") ||
		resp.Header.Get("Location") != "/ui/volumes?show=waiting" {
		t.Errorf("got %d, the cookie %q and the place %q", resp.StatusCode, cookie, resp.Header.Get("Location"))
	}

	for _, token := range []string{"s.bad", "", "a b", "a;b", strings.Repeat("x", maxToken+1)} {
		resp, body := post(t, h, "/ui/login", url.Values{"token": {token}})
		if resp.StatusCode < 400 || resp.Header.Get("Set-Cookie") != "" || !strings.Contains(body, `role="alert"`) {
			t.Errorf("the token %.9q: got %d %v", token, resp.StatusCode, resp.Header)
		}
	}
	for _, next := range []string{"//evil.example", "https://evil.example", "/v1/jobs", `/ui/\evil`} {
		form.Set("next", next)
		resp, _ := post(t, h, "/ui/login", form)
		if got := resp.Header.Get("Location"); got != Root {
			t.Errorf("%q leads to %q", next, got)
		}
	}
}

// Over TLS no browser sends the cookie without TLS.
func TestLogin_MarksTheCookieAsSecureOverTLS(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "https://127.0.0.1/ui/login", nil)
	w := httptest.NewRecorder()
	keepSession(w, r, "id")
	if got := w.Header().Get("Set-Cookie"); !strings.Contains(got, "; Secure") {
		t.Errorf("the cookie is %q", got)
	}
}

// The ID of a session is of no use after the logout, and the token that the user brought stays.
func TestLogout_EndsTheSessionAndNotTheUsersToken(t *testing.T) {
	h, servers := newPage(t)
	deleted := knowTokens(servers, "s.good")
	resp, _ := post(t, h, "/ui/login", url.Values{"token": {"s.good"}})
	cookie := cookieOf(resp)
	session := h.(*handler).sessions.Use(strings.TrimPrefix(cookie, cookieName+"="))

	resp, _ = post(t, h, "/ui/logout", nil, "Cookie", cookie)
	taken := resp.Header.Get("Set-Cookie")
	if resp.StatusCode != http.StatusSeeOther || !strings.Contains(taken, cookieName+"=;") ||
		!strings.Contains(taken, "Max-Age=0") {
		t.Errorf("got %d and the cookie %q", resp.StatusCode, taken)
	}
	if session.Context.Err() == nil || len(*deleted) != 0 {
		t.Errorf("the session goes on, or tokens were deleted: %v", *deleted)
	}
	apitest.On(servers, structs.CSIVolumeList, func(_ context.Context, q *structs.CSIVolumeListRequest) (
		*structs.CSIVolumeListResponse, error,
	) {
		return nil, structs.Deniedf("a call with the token %q", q.AuthToken)
	})
	resp, body := get(t, h, "/ui/volumes", "Cookie", cookie)
	wants(t, body, "does not know your session any more", `type="password"`, ">Log in</a>")
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("after the logout the view has %d", resp.StatusCode)
	}
	// Another session of the same token begins with another ID, and a second login ends the first.
	resp, _ = post(t, h, "/ui/login", url.Values{"token": {"s.good"}}, "Cookie", cookie)
	first := cookieOf(resp)
	resp, _ = post(t, h, "/ui/login", url.Values{"token": {"s.good"}}, "Cookie", first)
	if first == cookie || cookieOf(resp) == first ||
		h.(*handler).sessions.Use(strings.TrimPrefix(first, cookieName+"=")) != nil {
		t.Error("a login does not begin a session of its own")
	}
}

// A restarted agent, as another agent, does not know the session.
func TestSession_EndsWithTheAgent(t *testing.T) {
	h, _ := newPage(t)
	cookie := loggedIn(h, "s.good")
	h, servers := newPage(t)
	apitest.Fail(servers, structs.CSIVolumeList, structs.Deniedf("no token"))
	_, body := get(t, h, "/ui/volumes", "Cookie", cookie)
	wants(t, body, "sessions end after a time, and with the agent; log in again")
}

func TestLogout_EndsTheTokenOfALogin(t *testing.T) {
	h, servers := withMethods(t)
	deleted := knowTokens(servers, "s.new")
	made := tokenOfLogin()
	made.Token.AccessorID = "of-login"
	apitest.Answer(servers, access.TokenLogin, *made)
	begin := func() string {
		resp, _ := post(t, h, "/ui/login/jwt", url.Values{"method": {"ci"}, "jwt": {"a.b.c"}})
		return cookieOf(resp)
	}

	resp, _ := post(t, h, "/ui/logout", nil, "Cookie", begin())
	if resp.StatusCode != http.StatusSeeOther || strings.Join(*deleted, ", ") != "of-login by s.new" {
		t.Errorf("got %d, and the deleted tokens are %v", resp.StatusCode, *deleted)
	}

	// The session ends also if the token does not, and the user sees how to end it.
	apitest.Fail(servers, access.TokenDelete, structs.Unavailablef("there is no leader"))
	cookie := begin()
	resp, body := post(t, h, "/ui/logout", nil, "Cookie", cookie)
	wants(t, body, "there is no leader", "berth acl token delete of-login", ">Log in</a>")
	if resp.StatusCode != http.StatusServiceUnavailable ||
		h.(*handler).sessions.Use(strings.TrimPrefix(cookie, cookieName+"=")) != nil {
		t.Errorf("got %d, or the session goes on", resp.StatusCode)
	}

	// A token that has ended before needs no end.
	cookie = begin()
	knowTokens(servers)
	apitest.Fail(servers, access.TokenDelete, structs.Deniedf("there is no such token"))
	resp, _ = post(t, h, "/ui/logout", nil, "Cookie", cookie)
	if resp.StatusCode != http.StatusSeeOther {
		t.Errorf("the logout after the end of the token has %d", resp.StatusCode)
	}
}

// The command in a task and the log that a session follows end with the session.
func TestLogout_EndsCommandsAndStreams(t *testing.T) {
	h, servers, agent := withLog(t, "one\n")
	begun := make(chan struct{})
	agent.Exec = func(string, string) (api.ExecFunc, error) {
		return func(ctx context.Context, _ *api.Exec) (int, error) {
			close(begun)
			<-ctx.Done()
			return 0, ctx.Err()
		}, nil
	}
	agent.LogsEnd = make(chan struct{}) // the task goes on
	apitest.Answer(servers, access.Check, access.CheckResponse{})
	events := &feed{indexes: make(chan uint64)}
	apitest.On(servers, event.List, events.list)
	srv := httptest.NewServer(h)
	defer srv.Close()
	defer http.DefaultClient.CloseIdleConnections()
	id := h.(*handler).sessions.Begin(sessionLogin{Token: "s.good"})
	headers := http.Header{"Cookie": {cookieName + "=" + id}, "Origin": {srv.URL}}

	ws, _, err := websocket.Dial(t.Context(), srv.URL+"/ui/exec/socket?id="+anAlloc+"&task=web&line=x",
		&websocket.DialOptions{HTTPHeader: headers})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	var streams []io.Reader
	for _, path := range []string{"/ui/logs/stream?id=" + anAlloc + "&task=web", "/ui/live?topics=Fence"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = headers
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %v", path, resp, err)
		}
		defer func() { _ = resp.Body.Close() }()
		streams = append(streams, resp.Body)
	}
	<-begun

	resp, _ := post(t, h, "/ui/logout", nil, "Cookie", cookieName+"="+id)
	if resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("the logout has %d", resp.StatusCode)
	}
	for err = nil; err == nil; {
		_, _, err = ws.Read(t.Context())
	}
	for _, stream := range streams {
		_, _ = io.Copy(io.Discard, stream) // returns at the end of the stream
	}
}
