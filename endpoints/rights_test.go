package endpoints_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/acl"
	"berth/endpoints/endpointstest"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// policyFor returns the rules that give what a method needs on the things of the request of newRequest. ok is
// false for a need that no policy gives.
func policyFor(needs string) (rules string, ok bool) {
	if strings.HasPrefix(needs, "a management token") || strings.HasPrefix(needs, "any token") {
		return "", false
	}

	blocks := map[string]string{}
	for _, need := range strings.Split(needs, "; ") {
		need, _, _ = strings.Cut(need, ",")
		need, _, _ = strings.Cut(need, " or ")
		kind, right, _ := strings.Cut(need, ": ")
		switch kind {
		case "namespace":
			blocks[kind] = fmt.Sprintf("namespace %q {\n  capabilities = [%q]\n}\n", "team", right)
		case "volume":
			blocks[kind] = fmt.Sprintf("namespace %q {\n  volume %q {\n    capabilities = [%q]\n  }\n}\n", "team", "*", right)
		case "variables":
			blocks[kind] = fmt.Sprintf(
				"namespace %q {\n  variables {\n    path %q {\n      capabilities = [%q]\n    }\n  }\n}\n", "team", "*", right)
		case "node_pool":
			blocks[kind] = fmt.Sprintf("node_pool %q {\n  capabilities = [%q]\n}\n", "*", right)
		default:
			blocks[kind] = fmt.Sprintf("%s {\n  policy = %q\n}\n", kind, right)
		}
	}
	for _, block := range blocks {
		rules += block
	}
	return rules, true
}

// newRequest returns a request of a method about the namespace team, with a secret.
func newRequest(e rpc.Endpoint, secret string) any {
	req := e.New()
	switch r := req.(type) {
	case interface{ Query() *structs.QueryOptions }:
		r.Query().Namespace = "team"
		r.Query().AuthToken = secret
	case interface{ Write() *structs.WriteOptions }:
		r.Write().Namespace = "team"
		r.Write().AuthToken = secret
	}
	if v, ok := req.(*structs.CSIVolumeRegisterRequest); ok {
		v.Volumes = []*structs.CSIVolume{{ID: "v"}}
	}
	if v, ok := req.(*access.TokenGetRequest); ok {
		v.AccessorID = "of another caller"
	}
	if v, ok := req.(*access.CheckRequest); ok {
		v.Needs = access.NeedsNodeRead
	}
	return req
}

// allowNowhere gives callers without a token a right that no request is about.
func allowNowhere(s *endpointstest.Server) {
	s.T.Helper()
	endpointstest.Must(s, access.PolicyPut, &access.PolicyPutRequest{Policy: &access.Policy{
		Name: access.AnonymousPolicy, Rules: `namespace "nowhere" { policy = "read" }`,
	}})
}

// asked are the methods whose right is a list that shows what its caller may see: everybody may ask.
var asked = []string{
	"ACL.ListPolicies", "ACL.ListRoles", "Event.List", "Namespace.ListNamespaces", "NodePool.List", "Quota.List",
	"Quota.ListUsages", "Search.FuzzySearch", "Search.PrefixSearch", "Variables.List",
}

// open are the methods that need no token. A method that joins them has to be named here.
var open = []string{
	"ACL.Bootstrap", "ACL.ExchangeOneTimeToken", "ACL.ListAuthMethods", "ACL.Login", "ACL.Mode",
	"ACL.OIDCAuthURL", "ACL.OIDCCompleteAuth", "Certificate.Renew", "Certificate.Sign", "Keyring.ListPublic",
	"Node.Register", "Node.Relay", "Status.Leader", "Status.Peers", "Status.Ping",
}

// ofAnyToken are the methods that every token opens.
var ofAnyToken = []string{"ACL.UpsertOneTimeToken"}

// special are the methods whose need is a sentence, with the rules that give it.
var special = map[string]string{
	"ACL.Check":              `node { policy = "read" }`,
	"Namespace.GetNamespace": `namespace "*" { policy = "read" }`,
}

// Each method is closed for the tokens that do not give what its list line names, and open for those that do.
func TestMethods_AskForTheirRights(t *testing.T) {
	s := endpointstest.New(t)
	s.Guard()
	allowNowhere(s)
	token := s.Token
	nothing := token(`namespace "nowhere" { policy = "write" }`)
	elsewhere := token(strings.NewReplacer("team", "team-b").Replace(allOf("team")))
	management := s.ManagementToken()
	for _, e := range s.List() {
		denied := func(secret string) bool {
			_, err := e.Serve(t.Context(), newRequest(e, secret))
			return structs.IsKind(err, structs.KindDenied)
		}
		if e.Needs == "" {
			t.Errorf("%s names no right", e.Name)
		}
		if strings.HasPrefix(e.Needs, "no token") != slices.Contains(open, e.Name) {
			t.Errorf("%s needs %q; the list of methods without a token says otherwise", e.Name, e.Needs)
		}
		if strings.HasPrefix(e.Needs, "no token") || strings.HasPrefix(e.Needs, "the node itself") ||
			strings.HasPrefix(e.Needs, "the operator socket") {
			continue
		}

		if denied(management) {
			t.Errorf("%s denies a management token", e.Name)
		}
		if !denied("unknown") {
			t.Errorf("%s takes an unknown token", e.Name)
		}
		if slices.Contains(asked, e.Name) {
			continue
		}

		if slices.Contains(ofAnyToken, e.Name) {
			if !denied(access.Anonymous) || denied(nothing) {
				t.Errorf("%s (%s) is not open for tokens alone", e.Name, e.Needs)
			}
			continue
		}
		for caller, secret := range map[string]string{
			"nobody":                         access.Anonymous,
			"a token of another namespace":   elsewhere,
			"a token with too little for it": nothing,
		} {
			if !denied(secret) {
				t.Errorf("%s (%s) is open for %s", e.Name, e.Needs, caller)
			}
		}
		rules, ok := policyFor(e.Needs)
		if special[e.Name] != "" {
			rules = special[e.Name]
		}
		if ok && denied(token(rules)) {
			t.Errorf("%s (%s) denies a token with the rules\n%s", e.Name, e.Needs, rules)
		}
	}
}

// Each method is closed for an identity without policies, but for the services and variables of its job. It
// is open for one whose job has what the method needs, and no longer once the allocation is stopped. No
// policy opens a method of nodes.
func TestMethods_AskForTheRightsOfIdentities(t *testing.T) {
	s := endpointstest.New(t)
	s.Guard()
	allowNowhere(s)
	s.AddSigningKeys()
	s.AddWorkload()
	secret := s.TaskIdentity()
	denied := func(e rpc.Endpoint) bool {
		_, err := e.Serve(t.Context(), newRequest(e, secret))
		return structs.IsKind(err, structs.KindDenied)
	}
	give := func(rules string) {
		endpointstest.Must(s, access.PolicyPut, &access.PolicyPutRequest{Policy: &access.Policy{
			Name: "p", Rules: rules, JobACL: &access.JobACL{JobID: "job-a1"},
		}})
	}
	closed := func(e rpc.Endpoint) bool {
		return !strings.HasPrefix(e.Needs, "no token") && !slices.Contains(asked, e.Name)
	}
	for _, e := range s.List() {
		rules, ok := policyFor(e.Needs)
		if special[e.Name] != "" {
			rules, ok = special[e.Name], true
		}
		ofMachine := strings.HasPrefix(e.Needs, "the node itself") ||
			strings.HasPrefix(e.Needs, "the operator socket")
		give(`namespace "nowhere" { policy = "read" }`)
		if closed(e) && !denied(e) {
			t.Errorf("%s (%s) is open for an identity without a policy for it", e.Name, e.Needs)
		}
		switch {
		case ofMachine:
			give(allOf("*") + `node { policy = "write" }` + "\n" + `operator { policy = "write" }`)
			if !denied(e) {
				t.Errorf("%s takes an identity", e.Name)
			}
		case ok && closed(e):
			give(rules)
			if denied(e) {
				t.Errorf("%s (%s) denies an identity whose job has the rules\n%s", e.Name, e.Needs, rules)
			}
		}
	}

	s.LoseAlloc("a1")
	give(allOf("*"))
	for _, e := range s.List() {
		if !strings.HasPrefix(e.Needs, "no token") && !denied(e) {
			t.Errorf("%s takes the identity of a stopped allocation", e.Name)
		}
	}
}

// allOf returns the rules that give everything in a namespace, and nothing else.
func allOf(namespace string) string {
	return fmt.Sprintf("namespace %q {\n  policy = \"write\"\n  capabilities = [%q, %q, %q, %q]\n"+
		"  variables {\n    path \"*\" {\n      capabilities = [\"read\", \"write\", \"destroy\", \"list\"]\n    }\n  }\n}\n",
		namespace, acl.SubmitRawExec, acl.SubmitPrivileged, acl.CSIForceVolume, acl.CSIRegisterPlugin)
}

// No log entry has the secret of the token of its request.
func TestWrites_LeaveTheSecretOutOfTheLog(t *testing.T) {
	s := endpointstest.New(t)
	s.Guard()
	secret := s.ManagementToken()
	endpointstest.Must(s, cluster.NamespaceApply, &cluster.NamespaceApplyRequest{
		Definition:   &cluster.Namespace{Name: "prod"},
		WriteOptions: structs.WriteOptions{AuthToken: secret},
	})
	log := s.Raft.Text()
	if strings.Contains(log, secret) {
		t.Error("the log has the secret of a token")
	}
	if !strings.Contains(log, "prod") {
		t.Error("the log has no entry of the request")
	}
}

// Without TLS the port cannot tell a machine from anybody else.
func TestRights_APlainPortMakesNoCredentialsWithoutAToken(t *testing.T) {
	s := endpointstest.New(t)
	s.Guard()
	secret := s.ManagementToken()
	s.Roles = false
	token := &access.TokenPutRequest{Token: &access.Token{Type: access.TypeManagement}}
	endpointstest.Rejected(s, structs.KindDenied, access.TokenPut, token)
	endpointstest.Rejected(s, structs.KindDenied, cluster.JoinTokenList, &structs.QueryRequest{})
	endpointstest.Must(s, structs.NodeList, &structs.QueryRequest{}) // as nodes do

	token.AuthToken = secret
	endpointstest.Must(s, access.TokenPut, token)
}
