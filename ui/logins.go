package ui

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
	"time"

	accessapi "berth/api/access"
	"berth/structs"
	"berth/structs/access"
	"berth/ui/pages"
)

// The paths of logins at providers. A method of type OIDC has to allow the address of backPath as one to
// which the provider sends the browser back.
const (
	oidcPath = Root + "login/oidc"
	backPath = Root + "login/callback"
	jwtPath  = Root + "login/jwt"
)

const (
	// begunName is the cookie of a login that has begun: its method, state and nonce, as parameters.
	begunName = "berth_login"
	// loginTime is how long the servers take the answer of a provider.
	loginTime = 10 * time.Minute
)

// methods returns the auth methods. Without an answer of the servers the form has a token alone.
func (c *call) methods() (all []pages.Method) {
	ctx, cancel := c.ctx()
	defer cancel()
	found, _, err := accessapi.AuthMethods(ctx, c.client(""), nil)
	if err != nil {
		return nil
	}
	for _, m := range found {
		to := ""
		if m.Type == access.MethodOIDC {
			to = oidcPath + "?" + url.Values{"method": {m.Name}}.Encode()
		}
		all = append(all, pages.Method{Name: m.Name, To: to})
	}
	return all
}

// renderLogin shows the form for a login.
func (c *call) renderLogin(status int, form pages.LoginForm) {
	form.Methods = c.methods()
	c.render(status, loginView, contentOf("", pages.Login(form)))
}

// failLogin shows the form again, with the fault.
func (c *call) failLogin(err error) {
	c.token = ""
	c.renderLogin(structs.KindOf(err).HTTPStatus(), pages.LoginForm{Fault: err.Error(), Next: Root})
}

// loginByJWT logs in with the JWT of a form.
func (h *handler) loginByJWT(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	c.token = ""
	ctx, cancel := c.ctx()
	defer cancel()
	jwt := access.Secret(strings.TrimSpace(r.PostFormValue("jwt")))
	t, err := accessapi.Login(ctx, c.client(""), r.PostFormValue("method"), jwt)
	c.endLogin(t, err)
}

// endLogin begins a session with the token of a login, which a logout ends: otherwise the token ends at its
// own time. A browser does not send the cookie along with a redirect that begins at a provider, so the answer
// is a page that leads on.
func (c *call) endLogin(t *access.OpenToken, err error) {
	if err != nil {
		c.failLogin(err)
		return
	}
	c.beginSession(sessionLogin{Token: t.SecretID, Accessor: t.AccessorID})
	c.w.Header().Set("Refresh", "0; url="+Root)
	c.render(http.StatusOK, loginView, contentOf("", pages.LoggedIn()))
}

// backTo returns the address to which a provider sends the browser back.
func (c *call) backTo() string {
	scheme := "http"
	if c.r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + c.r.Host + backPath
}

// beginOIDC leads the browser to the provider of a method.
func (h *handler) beginOIDC(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	c.token = ""
	ctx, cancel := c.ctx()
	defer cancel()
	nonce := rand.Text()
	address, err := accessapi.AuthURL(ctx, c.client(""), accessapi.AuthURLBody{
		AuthMethodName: c.param("method"),
		RedirectURI:    c.backTo(),
		ClientNonce:    access.Secret(nonce),
	})
	if err != nil {
		c.failLogin(err)
		return
	}
	to, err := url.Parse(address)
	if err != nil || to.Scheme != "https" && to.Scheme != "http" {
		c.failLogin(structs.Internalf("the address of the provider is no URL of https or http"))
		return
	}
	begun := url.Values{"method": {c.param("method")}, "state": {to.Query().Get("state")}, "nonce": {nonce}}
	c.keepBegun(begun.Encode())
	http.Redirect(w, r, address, http.StatusFound)
}

// keepBegun gives the browser the cookie of a login that has begun, and with "" takes it away. The browser
// sends it when the provider leads back, which a page of another site does (Lax).
func (c *call) keepBegun(value string) {
	cookie := &http.Cookie{
		Name:     begunName,
		Value:    value,
		Path:     Root + "login",
		MaxAge:   int(loginTime.Seconds()),
		HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
		Secure:   c.r.TLS != nil,
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(c.w, cookie)
}

// completeOIDC ends a login. The state has to be that of the login that this browser has begun: otherwise
// another site could log the browser in as somebody else.
func (h *handler) completeOIDC(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	c.token = ""
	cookie, err := r.Cookie(begunName)
	if err != nil {
		c.failLogin(structs.Deniedf("this browser has begun no login within %s; begin again", loginTime))
		return
	}
	c.keepBegun("")
	begun, err := url.ParseQuery(cookie.Value)
	state := begun.Get("state")
	same := err == nil && subtle.ConstantTimeCompare([]byte(state), []byte(c.param("state"))) == 1
	if state == "" || !same {
		c.failLogin(structs.Deniedf("the answer of the provider is of another login; begin again"))
		return
	}
	if c.param("code") == "" {
		c.failLogin(structs.Deniedf("the provider has not logged you in: %s %s",
			structs.Cut(c.param("error"), structs.MaxQuoted),
			structs.Cut(c.param("error_description"), structs.MaxText)))
		return
	}

	ctx, cancel := c.ctx()
	defer cancel()
	t, err := accessapi.CompleteAuth(ctx, c.client(""), accessapi.CompleteAuthBody{
		AuthMethodName: begun.Get("method"),
		ClientNonce:    access.Secret(begun.Get("nonce")),
		State:          access.Secret(state),
		Code:           access.Secret(c.param("code")),
		Iss:            c.param("iss"),
		RedirectURI:    c.backTo(),
	})
	c.endLogin(t, err)
}
