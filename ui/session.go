package ui

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	accessapi "berth/api/access"
	"berth/structs"
	"berth/ui/pages"
)

// The cookie with the ID of a session. It is of the session of the browser.
const (
	cookieName = "berth_session"
	cookiePath = "/ui"
)

const (
	maxID    = 128      // bytes of the ID of a session
	maxToken = 8 << 10  // bytes of a token
	maxForm  = 64 << 10 // bytes of a form
)

// sessionID returns the ID in the cookie of a request, "" for none.
func sessionID(r *http.Request) string {
	c, err := r.Cookie(cookieName)
	if err != nil || len(c.Value) > maxID {
		return ""
	}
	return c.Value
}

// keepSession gives the browser a cookie with the ID of a session, and with "" takes it away. No script can
// read it, and no page of another site causes a request with it.
func keepSession(w http.ResponseWriter, r *http.Request, id string) {
	c := &http.Cookie{
		Name:     cookieName,
		Value:    id,
		Path:     cookiePath,
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		Secure:   r.TLS != nil,
	}
	if id == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// useSession reads the session of the call.
func (c *call) useSession() {
	id := sessionID(c.r)
	if id == "" {
		return
	}
	c.session = c.sessions.Use(id)
	c.sessionOver = c.session == nil
	if c.session != nil {
		c.token = c.session.Token
	}
}

// beginSession logs the browser in. A former session of the browser ends if the request has its cookie. One
// with which a provider leads back has not: the browser then forgets the ID of the former session, which ends
// as one without requests.
func (c *call) beginSession(l sessionLogin) {
	_ = c.endSession() // its token has a time at which it ends
	keepSession(c.w, c.r, c.sessions.Begin(l))
	c.token = l.Token
}

// endSession ends the session of the browser, and the token if the login of the session has made it. An error
// means that the token has not ended.
func (c *call) endSession() error {
	ended := c.sessions.End(sessionID(c.r))
	if ended == nil || ended.Accessor == "" {
		return nil
	}
	c.token = ended.Token
	defer func() { c.token = "" }()
	ctx, cancel := c.ctx()
	defer cancel()
	err := accessapi.DeleteToken(ctx, c.client(""), ended.Accessor)
	if err == nil || structs.IsKind(err, structs.KindNotFound) {
		return nil
	}
	_, unknown := accessapi.TokenSelf(ctx, c.client(""))
	if structs.IsKind(unknown, structs.KindDenied) || structs.IsKind(unknown, structs.KindNotFound) {
		return nil // it has ended before
	}
	return fmt.Errorf("you are logged out, but the token of the login has not ended; to end it: %s: %w",
		structs.CommandLine("", "acl token delete", ended.Accessor), err)
}

// stream returns the context of an answer that goes on: it ends with the request and with the session.
func (c *call) stream() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(c.r.Context())
	if c.session == nil {
		return ctx, cancel
	}
	keep := context.AfterFunc(c.session.Context, cancel)
	return ctx, func() {
		keep()
		cancel()
	}
}

// loginView is the frame of the form.
var loginView = view{name: "Log in"}

func (h *handler) showLogin(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	c.renderLogin(http.StatusOK, pages.LoginForm{Next: ownPath(c.param("next"))})
}

// askForToken shows the form in place of a view that the caller may not see without a token.
func (h *handler) askForToken(c *call, err error) {
	fault := err.Error()
	if c.sessionOver {
		fault = "this agent does not know your session any more: sessions end after a time, and with the agent; log in again"
	}
	c.renderLogin(http.StatusForbidden, pages.LoginForm{Fault: fault, Next: ownPath(c.r.URL.RequestURI())})
}

// login begins a session with a token that the servers know.
func (h *handler) login(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	token := strings.TrimSpace(r.PostFormValue("token"))
	c.token = token
	next := ownPath(r.PostFormValue("next"))
	err := c.checkToken()
	if err != nil {
		c.token = ""
		c.renderLogin(structs.KindOf(err).HTTPStatus(), pages.LoginForm{Fault: err.Error(), Next: next})
		return
	}
	c.beginSession(sessionLogin{Token: token})
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// checkToken asks the servers whether the token of the call is one of theirs.
func (c *call) checkToken() error {
	if c.token == "" || len(c.token) > maxToken || strings.ContainsAny(c.token, " \t\r\n;,\"\\") {
		return structs.Invalidf("this is no token: expected its secret, as the field \"Secret ID\" of " +
			"berth acl token create or berth login shows it")
	}
	ctx, cancel := c.ctx()
	defer cancel()
	_, err := accessapi.TokenSelf(ctx, c.client(""))
	return err
}

// logout ends the session of the browser.
func (h *handler) logout(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	c.token = ""
	err := c.endSession()
	keepSession(w, r, "")
	if err != nil {
		c.failLogin(err)
		return
	}
	http.Redirect(w, r, Root, http.StatusSeeOther)
}

// ownPath returns a path of the page. Any other address becomes that of the first view: a form must not lead
// to another host.
func ownPath(path string) string {
	if !strings.HasPrefix(path, Root) || strings.ContainsAny(path, "\\\r\n") {
		return Root
	}
	return path
}
