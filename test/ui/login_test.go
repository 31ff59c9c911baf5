package ui

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// viewerRules let a person see one namespace, and nothing else.
const viewerRules = `namespace "default" {
  policy = "read"
}
`

// firstToken is the secret of the management token.
const firstToken = "6f0c1a52-3b64-4d0f-9b57-0b6a5f1c2d3e"

// methodConfigs are the configurations of the auth methods, by their types, with places for the address of
// the provider and for that of the page.
var methodConfigs = map[string]string{
	"JWT": `{"JWKSURL": "%[1]s/keys", "BoundAudiences": ["berth"], "ListClaimMappings": {"groups": "groups"}}`,
	"OIDC": `{"OIDCDiscoveryURL": "%[1]s", "OIDCClientID": "berth", "OIDCClientSecret": "client-secret",
		"AllowedRedirectURIs": ["%[2]s/ui/login/callback"], "ListClaimMappings": {"groups": "groups"}}`,
}

// guarded is an agent with access control, which people may use by a provider of identities.
type guarded struct {
	*browser
	berth
	page   string // the address by which the browser calls the agent
	secret string // of a token of the policy
	jwt    string // of a person with the policy
}

// TestPage_LogsIn logs in at a page with access control in each way that its form has. The person sees what
// their policy allows, cannot do what it does not, and logs out.
func TestPage_LogsIn(t *testing.T) {
	g := startGuarded(t)
	t.Run("form", func(t *testing.T) {
		g.use(t)
		g.seeNothing("/ui/")
		g.checkLooks("the form of a login")
		g.screenshot("login-methods-light")
	})
	for _, way := range []struct {
		name string
		do   func(*guarded)
		ends bool // the token ends with the session
	}{
		{"token", (*guarded).logInByToken, false},
		{"JWT", (*guarded).logInByJWT, true},
		{"OIDC", (*guarded).logInByProvider, true},
	} {
		t.Run(way.name, func(t *testing.T) {
			g.use(t)
			g.seeNothing("/ui/jobs?order=create")
			before := g.tokens()
			way.do(g)
			cookie := g.checkCookie()
			g.seeTheNamespace()
			g.tryToStop("idle")
			g.logOut(cookie)
			if left := g.tokens(); way.ends && left != before || !way.ends && !strings.Contains(left, "viewer") {
				t.Errorf("before the login there were the tokens\n%s\nafter it there are\n%s", before, left)
			}
		})
	}
	t.Run("wrong token", func(t *testing.T) {
		g.use(t)
		g.tryAWrongToken()
	})
}

// use makes a test the one that the agent and the browser report to.
func (g *guarded) use(t *testing.T) {
	g.browser.t = t
	g.berth.t = t
}

// startGuarded starts an agent with access control, a provider of identities and a browser. There are two
// namespaces with a job each, and a policy for the first one.
func startGuarded(t *testing.T) *guarded {
	t.Helper()
	agent := startAgent(t, "acl {\n  enabled = true\n}\n")
	agent.token = firstToken
	provider := runFixture(t, 2, buildFixture(t), "issuer", "dev")
	// To the browser, the provider is another site.
	g := &guarded{berth: agent, page: strings.Replace(agent.addr, "127.0.0.1", "localhost", 1), jwt: provider[1]}
	g.browser = openBrowser(t, g.page, provider[0])

	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		err := os.WriteFile(path, []byte(text), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	agent.token = ""
	agent.run("acl", "bootstrap", file("first", firstToken))
	agent.token = firstToken
	agent.run("acl", "policy", "apply", "viewer", file("viewer.hcl", viewerRules))
	var made struct{ SecretID string }
	text := agent.run("acl", "token", "create", "-name", "viewer", "-policy", "viewer", "-json")
	err := json.Unmarshal([]byte(text), &made)
	if err != nil || made.SecretID == "" {
		t.Fatalf("made the token %s: %v", text, err)
	}
	g.secret = made.SecretID
	for kind, config := range methodConfigs {
		agent.run("acl", "auth-method", "create", "-name", "my-"+kind, "-type", kind, "-max-token-ttl", "1h",
			"-config", file(kind, fmt.Sprintf(config, provider[0], g.page)))
		agent.run("acl", "binding-rule", "create", "-auth-method", "my-"+kind, "-bind-type", "policy",
			"-bind-name", "viewer", "-selector", `"dev" in list.groups`)
	}

	agent.run("namespace", "apply", "other")
	agent.run("job", "run", file("idle.hcl", idleJob))
	hidden := strings.Replace(idleJob, `job "idle" {`, "job \"hidden\" {\n  namespace = \"other\"", 1)
	agent.run("job", "run", file("hidden.hcl", hidden))
	return g
}

// tokens are the names of all tokens.
func (g *guarded) tokens() string {
	g.browser.t.Helper()
	return g.run("acl", "token", "list", "-t", "{{range .}}{{.Name}}\n{{end}}")
}

// asks: the page shows the form of a login, and nothing of the cluster.
const asks = `document.getElementById("token") !== null && document.querySelector("table") === null`

// seeNothing opens a view without a session: the page asks for a login.
func (g *guarded) seeNothing(path string) {
	g.browser.t.Helper()
	g.do(chromedp.Navigate(g.page + path))
	g.await("the page asks for a login", asks)
	g.forgive("status of 403")
	g.checkFaults("the form of a login")
}

// submit clicks the button of the form that has a field.
func (g *guarded) submit(field string) {
	g.browser.t.Helper()
	g.choose("the button", fmt.Sprintf(`document.querySelector(%q).form.querySelector("button")`, field))
}

// in: there is a session.
const in = `[...document.querySelectorAll("header button")].some(b => b.textContent === "Log out")`

func (g *guarded) logInByToken() {
	g.browser.t.Helper()
	g.do(chromedp.SendKeys(chromedp.CSS("#token"), g.secret))
	g.follow(chromedp.KeyEvent(kb.Enter)) // by the keyboard alone
	g.await("the view that was asked for", in+` && location.pathname + location.search === "/ui/jobs?order=create"`)
}

func (g *guarded) logInByJWT() {
	g.browser.t.Helper()
	g.do(chromedp.SendKeys(chromedp.CSS("input[name=jwt]"), g.jwt))
	g.submit("input[name=jwt]")
	g.await("the first view", in+` && location.pathname === "/ui/"`)
}

// logInByProvider goes to the provider and back.
func (g *guarded) logInByProvider() {
	g.browser.t.Helper()
	g.choose("the provider", link("Log in with my-OIDC"))
	g.await("the first view", in+` && location.pathname === "/ui/"`)
}

// checkCookie checks that scripts cannot read the cookie of the session, and that the browser sends it from
// the page alone. It returns its value.
func (g *guarded) checkCookie() string {
	g.browser.t.Helper()
	got := command(g.browser, network.GetCookies, network.GetCookiesParams{URLs: []string{g.page + "/ui/login"}})
	if len(got.Cookies) != 1 {
		g.browser.t.Fatalf("the browser has %d cookies for the page, want that of the session", len(got.Cookies))
	}
	c := got.Cookies[0]
	if c.Name != "berth_session" || !c.HTTPOnly || c.SameSite != "Strict" || c.Path != "/ui" || !c.Session {
		g.browser.t.Errorf("the cookie of the session is %+v", *c)
	}
	if strings.Contains(g.secret+g.jwt, c.Value) || len(c.Value) < 20 {
		g.browser.t.Errorf("the value of the cookie is %q, want a random ID", c.Value)
	}
	if text := eval[string](g.browser, "document.cookie"); text != "" {
		g.browser.t.Errorf("scripts read the cookies %q", text)
	}
	return c.Value
}

// seeTheNamespace looks at the jobs of all namespaces, of which the policy has one, and at the nodes, which
// it does not have.
func (g *guarded) seeTheNamespace() {
	g.browser.t.Helper()
	g.do(chromedp.Navigate(g.page + "/ui/jobs?namespace=*"))
	g.await("the job of the own namespace", "!!"+row("idle"))
	g.await("the view is live", live)
	if eval[bool](g.browser, `document.body.innerText.includes("hidden")`) {
		g.browser.t.Error("the view has the job of the other namespace")
	}
	g.checkFaults("the jobs")
	for path, want := range map[string]string{
		"/ui/job?id=hidden&namespace=other": "this needs namespace: read-job",
		"/ui/nodes":                         "this needs node: read",
	} {
		g.do(chromedp.Navigate(g.page + path))
		g.await(path, `document.querySelector("#rows .fault, #rows [role=alert]") !== null`)
		text := eval[string](g.browser, `document.getElementById("rows").innerText`)
		if !strings.Contains(text, want) {
			g.browser.t.Errorf("%s shows %q, want %q", path, text, want)
		}
		g.forgive("status of 403")
		g.checkFaults(path)
	}
}

// tryToStop tries to stop a job, and sees why it may not.
func (g *guarded) tryToStop(job string) {
	g.browser.t.Helper()
	g.do(chromedp.Navigate(g.page + "/ui/job?id=" + job))
	g.choose("the action", link("Stop"))
	g.choose("the button", `document.querySelector("button.act")`)
	g.await("the reason", `document.querySelector("[role=alert]")?.innerText.includes("submit-job")`)
	g.forgive("status of 403")
	g.checkFaults("the action")
	if got := status(g.berth, job); got != "running" {
		g.browser.t.Errorf("the job that may not be stopped is %s", got)
	}
}

// logOut ends the session: the page asks for a login again, also a browser that still has the cookie.
func (g *guarded) logOut(cookie string) {
	g.browser.t.Helper()
	g.choose("the button", `document.querySelector("header form button")`)
	g.await("the page asks for a login", asks)
	got := command(g.browser, network.GetCookies, network.GetCookiesParams{URLs: []string{g.page + "/ui/login"}})
	if len(got.Cookies) > 0 {
		g.browser.t.Errorf("the browser still has the cookie %+v", *got.Cookies[0])
	}
	g.seeNothing("/ui/jobs")

	stolen := network.SetCookieParams{Name: "berth_session", Value: cookie, URL: g.page + "/ui/", Path: "/ui"}
	command(g.browser, network.SetCookie, stolen)
	g.seeNothing("/ui/jobs")
	if !eval[bool](g.browser, `document.body.innerText.includes("does not know your session")`) {
		g.browser.t.Error("the page does not say that the session is over")
	}
	command(g.browser, network.ClearBrowserCookies, cdp.Empty{})
}

// tryAWrongToken pastes a secret that is none.
func (g *guarded) tryAWrongToken() {
	g.browser.t.Helper()
	g.seeNothing("/ui/")
	g.do(chromedp.SendKeys(chromedp.CSS("#token"), strings.Replace(firstToken, "6f0c", "0000", 1)))
	g.submit("#token")
	g.await("the reason", asks+` && document.querySelector("[role=alert]")?.innerText.length > 0`)
	g.forgive("status of 403")
	g.checkFaults("a wrong token")
	got := command(g.browser, network.GetCookies, network.GetCookiesParams{URLs: []string{g.page + "/ui/login"}})
	if len(got.Cookies) > 0 {
		g.browser.t.Errorf("a wrong token gives the cookie %+v", *got.Cookies[0])
	}
}
