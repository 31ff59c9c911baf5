package ui

import (
	"net/http"
	"strings"

	"berth/api/acls"
	"berth/structs"
)

// The cookie with the token of a caller. It is of the session of the browser.
const (
	cookieName = "berth_token"
	cookiePath = "/ui"
)

const (
	maxToken = 8 << 10  // bytes of a token
	maxForm  = 64 << 10 // bytes of a form
)

// tokenOf returns the token in the cookie of a request, "" for none.
func tokenOf(r *http.Request) string {
	c, err := r.Cookie(cookieName)
	if err != nil || len(c.Value) > maxToken {
		return ""
	}
	return c.Value
}

// keepToken gives the browser a cookie with a token, and with "" takes it away. No script can read it, and
// no page of another site causes a request with it.
func keepToken(w http.ResponseWriter, r *http.Request, token string) {
	c := &http.Cookie{
		Name:     cookieName,
		Value:    token,
		Path:     cookiePath,
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		Secure:   r.TLS != nil,
	}
	if token == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// loginForm is the data of the form for a token.
type loginForm struct {
	Fault string // why the form is shown again, or why the view needs a token
	Next  string // the view to show after the login
	// Methods are the auth methods of the cluster.
	Methods []method
}

// loginView is the frame of the form.
var loginView = view{name: "Log in"}

func (h *handler) showLogin(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	c.renderLogin(http.StatusOK, loginForm{Next: ownPath(c.param("next"))})
}

// askForToken shows the form in place of a view that the caller may not see without a token.
func (h *handler) askForToken(c *call, err error) {
	c.renderLogin(http.StatusForbidden, loginForm{Fault: err.Error(), Next: ownPath(c.r.URL.RequestURI())})
}

// login keeps a token that the servers know.
func (h *handler) login(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	c.token = strings.TrimSpace(r.PostFormValue("token"))
	next := ownPath(r.PostFormValue("next"))
	err := c.checkToken()
	if err != nil {
		c.token = ""
		c.renderLogin(structs.KindOf(err).HTTPStatus(), loginForm{Fault: err.Error(), Next: next})
		return
	}
	keepToken(w, r, c.token)
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
	_, err := acls.TokenSelf(ctx, c.client(""))
	return err
}

func (h *handler) logout(w http.ResponseWriter, r *http.Request) {
	keepToken(w, r, "")
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
