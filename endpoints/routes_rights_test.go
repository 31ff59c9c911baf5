package endpoints_test

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/acl"
	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/endpoints/endpointstest"
	"berth/endpoints/rights"
	"berth/internal/pki"
	"berth/structs/event"
)

// asCertificate names the role of the certificate of a caller of guardedAPI.
const asCertificate = "X-Test-Certificate"

// guardedAPI serves the HTTP API over the procedures of a server that asks for tokens.
func guardedAPI(t *testing.T, s *endpointstest.Server) *httptest.Server {
	h := api.NewHandler(api.Config{
		Routes: areas.Routes(),
		Caller: rights.ForPeople(s.RPC),
		Own:    s.RPC,
		Agent:  &apitest.Agent{Node: "n1", MetricsAre: apitest.Metrics{}},
		Logger: hclog.NewNullLogger(),
		ACL:    true,
	})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if role := r.Header.Get(asCertificate); role != "" {
			id := pki.Identity{Region: "global", Role: pki.Role(role), ID: "n1"}
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{URIs: []*url.URL{id.URI()}}}}
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		srv.Close()
	})
	return srv
}

// routeRight is a route with the right that it needs.
type routeRight struct {
	name, methods, path, body, procedure, needs string
}

// ofAllocation finds the allocation in the path of a route that an agent serves itself.
var ofAllocation = regexp.MustCompile(`^(/v1/client/(?:allocation|fs/[a-z]+)/)[a-z-]+`)

// routeRights returns all routes of the API. The right is that of the list of routes, or else that of the
// procedure which the route calls. The requests are about the namespace default and the allocation a1.
func routeRights(t *testing.T, s *endpointstest.Server) (all []routeRight) {
	ofMethod := map[string]string{}
	for _, e := range s.List() {
		ofMethod[e.Name] = e.Needs
	}
	requests := map[string]apitest.RouteRequest{}
	for _, r := range apitest.RouteRequests(t, "..") {
		requests[r.Route] = r
	}
	for _, r := range areas.Routes() {
		name := strings.Fields(r.Methods)[0] + " " + r.Path
		request, ok := requests[name]
		if !ok {
			t.Fatalf("the list of requests has none for %s; run `make goldens`", name)
		}
		u, err := url.Parse(ofAllocation.ReplaceAllString(request.Path, "${1}a1"))
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		for _, option := range []string{"region", "index", "wait", "next_token", "filter", "topic"} {
			q.Del(option) // a stream of events without topics leaves out what its caller may not see
		}
		if request.Procedure == event.List.Name {
			q.Set("follow", "false")
		}
		q.Set("namespace", "default")
		u.RawQuery = q.Encode()
		needs := cmp.Or(string(r.Needs), ofMethod[request.Procedure])
		if needs == "" {
			t.Errorf("%s names no right and calls no procedure", name)
		}
		all = append(all, routeRight{name, r.Methods, u.String(), request.Body, request.Procedure, needs})
	}
	return all
}

// furtherRight finds the second right of those that need another one for what the requests of the list ask.
var furtherRight = regexp.MustCompile(`, (?:with force|to delete) [a-z]+: ([a-z]+)`)

// visitor is a caller of the API.
type visitor struct {
	name    string
	headers map[string]string
	// may reports whether the caller has what a route needs.
	may func(r routeRight) bool
}

func withToken(secret string) map[string]string { return map[string]string{"X-Nomad-Token": secret} }

// isOpen reports whether a route is for callers without a token: it needs none, or is a list that leaves out
// what its caller may not see.
func (r routeRight) isOpen() bool {
	return strings.HasPrefix(r.needs, "no token") || slices.Contains(asked, r.procedure)
}

// isOfAnyToken reports whether each token opens a route: some show a token to its holder.
func (r routeRight) isOfAnyToken() bool {
	return r.isOpen() || slices.Contains(ofAnyToken, r.procedure) || r.name == "GET /v1/acl/token/self"
}

// isOfSocket reports whether root alone may use a route.
func (r routeRight) isOfSocket() bool { return strings.HasPrefix(r.needs, "the operator socket") }

// visit makes a request and reports whether it was denied.
func (v visitor) visit(t *testing.T, base, method string, r routeRight) (denied bool, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, base+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range v.headers {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode == http.StatusForbidden, string(body)
}

// check visits all routes.
func (v visitor) check(t *testing.T, base string, routes []routeRight) {
	for _, r := range routes {
		for _, method := range strings.Fields(r.methods) {
			denied, text := v.visit(t, base, method, r)
			if strings.HasPrefix(r.needs, "no token") {
				// The answer may be a denial all the same, of a login for example, but none about a right.
				denied = denied && strings.Contains(text, "this needs")
			}
			if denied == v.may(r) {
				t.Errorf("%s %s (%s) for %s: denied is %t: %s", method, r.path, r.needs, v.name, denied, text)
			}
		}
	}
}

// Each route is closed for the callers who lack what the list of routes, or that of methods, names for it,
// and open for the others.
func TestRoutes_AskForTheirRights(t *testing.T) {
	s := endpointstest.New(t)
	s.AddSigningKeys()
	s.AddWorkload()
	identity := s.TaskIdentity()
	s.Guard()
	allowNowhere(s)
	token := s.Token
	base := guardedAPI(t, s).URL
	routes := routeRights(t, s)
	node := map[string]string{asCertificate: string(pki.RoleNode)}
	forwards := map[string]string{asCertificate: string(pki.RoleNode), api.HeaderPassedOn: "1"}
	anything := func(routeRight) bool { return true }
	for _, v := range []visitor{
		{"nobody", nil, routeRight.isOpen},
		{"a node with its certificate", node, routeRight.isOpen},
		{"a node that says that it forwards", forwards, routeRight.isOpen},
		{"a token of another namespace", withToken(token(allOf("team"))), routeRight.isOfAnyToken},
		{"the identity of a workload", withToken(identity), func(r routeRight) bool {
			return r.isOpen() || strings.Contains(r.needs, "or an identity of a workload")
		}},
		{"a management token", withToken(s.ManagementToken()), func(r routeRight) bool { return !r.isOfSocket() }},
	} {
		v.check(t, base, routes)
	}

	for _, r := range routes {
		wrong := withToken(token(rulesWithout(r.needs)))
		visitor{"a token without this right", wrong, routeRight.isOfAnyToken}.check(t, base, []routeRight{r})
		rules, ok := r.rules()
		if ok {
			right := visitor{"a token with " + rules, withToken(token(rules)), anything}
			right.check(t, base, []routeRight{r})
		}
	}
}

// rules returns those that give what a route needs. ok is false if none do, or nobody needs any.
func (r routeRight) rules() (rules string, ok bool) {
	if r.isOfAnyToken() || r.isOfSocket() {
		return "", false
	}
	rules, ok = policyFor(r.needs)
	if more := furtherRight.FindStringSubmatch(r.needs); more != nil {
		rules = strings.Replace(rules, "capabilities = [", "capabilities = [\""+more[1]+"\", ", 1)
	}
	return cmp.Or(special[r.procedure], strings.ReplaceAll(rules, `"team"`, `"default"`)), ok
}

// namespaceRights are the capabilities of a namespace that rulesWithout chooses from.
var namespaceRights = []acl.Capability{
	acl.ListJobs, acl.ParseJob, acl.ReadJob, acl.SubmitJob, acl.DispatchJob, acl.ReadLogs,
	acl.ReadFS, acl.AllocExec,
	acl.AllocNodeExec, acl.AllocLifecycle, acl.CSIRegisterPlugin, acl.CSIListVolume, acl.CSIReadVolume,
	acl.CSIWriteVolume, acl.CSIMountVolume, acl.ListScaling, acl.ReadScaling, acl.ReadJobScaling, acl.ScaleJob,
	acl.SubmitRawExec, acl.SubmitPrivileged, acl.CSIForceVolume,
}

// rulesWithout returns rules that give everything but what a right names, and what contains it.
func rulesWithout(needs string) string {
	rules := ""
	for kind, policy := range map[string]string{
		"node": "write", "agent": "write", "operator": "write", "quota": "write", "plugin": "read",
	} {
		if !strings.Contains(needs, kind+": ") {
			rules += kind + " { policy = \"" + policy + "\" }\n"
		}
	}
	if !strings.Contains(needs, "node_pool: ") {
		rules += "node_pool \"*\" { policy = \"write\" }\n"
	}
	rest := func(kind string, all []acl.Capability) string {
		var given []string
		for _, c := range all {
			if !strings.Contains(needs, kind+string(c)) {
				given = append(given, `"`+string(c)+`"`)
			}
		}
		return "capabilities = [" + strings.Join(given, ", ") + "]\n"
	}
	rules += "namespace \"default\" {\n" + rest("", namespaceRights)
	rules += "volume \"*\" {\n" + rest("volume: ", []acl.Capability{acl.VolumeRead, acl.VolumeClaim, acl.VolumeWrite,
		acl.VolumeExpand, acl.VolumeSnapshot, acl.VolumeDetach, acl.VolumeForce}) + "}\n"
	rules += "variables {\npath \"*\" {\n" + rest("variables: ", []acl.Capability{acl.VariablesList,
		acl.VariablesRead, acl.VariablesWrite, acl.VariablesDestroy}) + "}\n}\n}\n"
	return rules
}
