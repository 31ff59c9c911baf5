package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	public "github.com/hashicorp/nomad/api"

	"berth/internal/authmethod/issuertest"
)

// accessVerbs are the verbs of the peer's command line for access control.
var accessVerbs = []string{
	"acl auth-method create",
	"acl auth-method delete",
	"acl auth-method info",
	"acl auth-method list",
	"acl auth-method update",
	"acl binding-rule create",
	"acl binding-rule delete",
	"acl binding-rule info",
	"acl binding-rule list",
	"acl binding-rule update",
	"acl bootstrap",
	"acl policy apply",
	"acl policy delete",
	"acl policy info",
	"acl policy list",
	"acl policy self",
	"acl role create",
	"acl role delete",
	"acl role info",
	"acl role list",
	"acl role update",
	"acl token create",
	"acl token delete",
	"acl token info",
	"acl token list",
	"acl token self",
	"acl token update",
	"login",
}

// laterVerbs are those that only newer versions of the peer's command line have. berth's has them.
var laterVerbs = []string{"acl policy self"}

// verbStep is a command with a verb. A word in capitals stands for a file, or for what an earlier step has
// kept.
type verbStep struct {
	as    string // what was kept as the secret of the caller; "" for none
	verb  string
	args  string
	wants string // words of the output
	keep  string // NAME=FIELD, ...: keeps fields of the output
	// ends checks that the effect is there: a command that fails from now on, as the caller.
	ends string
}

// verbSteps is a life of all that has to do with access.
var verbSteps = []verbStep{
	{"", "acl bootstrap", "", "management", "ROOT=Secret ID,FIRST=Accessor ID", "acl bootstrap"},
	{"ROOT", "acl policy apply", "-description Nodes nodes POLICY", "", "", ""},
	{"ROOT", "acl policy apply", "jobs JOBS", "", "", ""},
	{"ROOT", "acl policy list", "", "nodes jobs Nodes", "", ""},
	{"ROOT", "acl policy info", "nodes", "nodes node read", "", ""},
	{"ROOT", "acl token self", "", "FIRST", "", ""},

	{"ROOT", "acl role create", "-name ops -policy jobs", "ops jobs", "ROLE=ID", ""},
	{"ROOT", "acl role list", "", "ops", "", ""},
	{"ROOT", "acl role update", "-policy nodes ROLE", "jobs nodes", "", ""},
	{"ROOT", "acl role info", "ROLE", "ops jobs nodes", "", ""},

	{"ROOT", "acl token create", "-name duty -role-name ops -ttl 1h", "duty ops",
		"DUTY=Secret ID,ITS=Accessor ID", ""},
	{"ROOT", "acl token list", "", "duty FIRST ITS", "", ""},
	{"ROOT", "acl token info", "ITS", "duty ops", "", ""},
	{"DUTY", "acl token self", "", "ITS duty", "", "acl token list"},
	{"ROOT", "acl token update", "-name night -policy nodes ITS", "night nodes", "", ""},
	{"DUTY", "acl policy self", "", "nodes", "", ""},
	{"DUTY", "node status", "", "", "", ""},

	{"ROOT", "acl auth-method create",
		"-name ci -type JWT -max-token-ttl 3m -token-locality local -config @CONFIG", "ci JWT", "", ""},
	{"ROOT", "acl auth-method list", "", "ci JWT", "", ""},
	{"ROOT", "acl auth-method update", "-max-token-ttl 2m ci", "2m", "", ""},
	{"ROOT", "acl auth-method info", "ci", "ci /keys 2m", "", ""},
	{"ROOT", "acl binding-rule create",
		"-auth-method ci -bind-type policy -bind-name nodes -selector SELECTOR", "ci nodes", "RULE=ID", ""},
	{"ROOT", "acl binding-rule list", "", "ci RULE", "", ""},
	{"ROOT", "acl binding-rule update", "-description developers RULE", "developers", "", ""},
	{"ROOT", "acl binding-rule info", "RULE", "nodes list.groups developers", "", ""},
	{"", "login", "-method ci -type JWT LOGIN", "nodes", "ANN=Secret ID", "node status"},
	{"ANN", "node status", "", "", "", "acl token list"},

	{"ROOT", "acl binding-rule delete", "RULE", "", "", "acl binding-rule info RULE"},
	{"", "", "", "", "", "login -method ci -type JWT LOGIN"},
	{"ROOT", "acl auth-method delete", "ci", "", "", "acl auth-method info ci"},
	{"ROOT", "acl policy delete", "nodes", "", "", "acl policy info nodes"},
	{"ANN", "", "", "", "", "node status"},
	{"ROOT", "acl role delete", "ROLE", "", "", "acl role info ROLE"},
	{"ROOT", "acl token delete", "ITS", "", "", "acl token info ITS"},
	{"DUTY", "", "", "", "", "acl token self"},
}

// verbRun runs steps with one command line.
type verbRun struct {
	cli  peerCLI
	kept map[string][]string // the words that stand for something
}

// words returns the arguments of a command.
func (r *verbRun) words(line string) (args []string) {
	for _, word := range strings.Fields(line) {
		name, isFile := strings.CutPrefix(word, "@")
		values, ok := r.kept[name]
		switch {
		case ok && isFile:
			args = append(args, "@"+values[0])
		case ok:
			args = append(args, values...)
		default:
			args = append(args, word)
		}
	}
	return args
}

func (r *verbRun) run(s verbStep) {
	r.cli.t.Helper()
	cli := r.cli
	if s.as != "" {
		cli = cli.as(r.kept[s.as][0])
	}
	if s.verb != "" {
		out := cli.run(r.words(s.verb + " " + s.args)...)
		cli.checkOutput(out, r.words(s.wants)...)
		for _, keep := range strings.Split(s.keep, ",") {
			name, of, ok := strings.Cut(keep, "=")
			if !ok {
				continue
			}
			value := field(out, of)
			if value == "" {
				cli.t.Fatalf("%s: the output has no %s:\n%s", s.verb, of, out)
			}
			r.kept[name] = []string{value}
		}
	}
	if s.ends != "" {
		cli.exitsNot(r.words(s.ends)...)
	}
}

// exitsNot fails the test if a command succeeds.
func (p peerCLI) exitsNot(args ...string) {
	p.t.Helper()
	if code, out := p.result(args...); code == 0 {
		p.t.Errorf("%s succeeds:\n%s", strings.Join(args, " "), out)
	}
}

// TestCommandLines_HaveEveryVerbOfAccess runs each verb with the peer's command line, and with berth's.
func TestCommandLines_HaveEveryVerbOfAccess(t *testing.T) {
	t.Parallel()
	bin := os.Getenv("BERTH_BIN")
	peerBin := os.Getenv("PEER_BIN")
	if bin == "" || peerBin == "" {
		t.Skip("needs the peer's command line: PEER_BIN=$(scripts/peer.sh), and a berth binary (BERTH_BIN)")
	}

	var tried []string
	for _, s := range verbSteps {
		tried = append(tried, s.verb)
	}
	for _, verb := range accessVerbs {
		if !slices.Contains(tried, verb) {
			t.Errorf("no step runs %q", verb)
		}
	}
	known := append(verbsBelow(t, peerBin, "acl"), "login")
	known = append(known, laterVerbs...)
	slices.Sort(known)
	if !slices.Equal(known, accessVerbs) {
		t.Errorf("the peer's command line has the verbs %q, want %q", known, accessVerbs)
	}
	for name, program := range map[string]string{"the peer's": peerBin, "berth's": bin} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newVerbRun(t, program, bin)
			if program == bin {
				jwt := filepath.Join(t.TempDir(), "jwt")
				checkNoError(t, "writing a file", os.WriteFile(jwt, []byte(r.kept["LOGIN"][1]), 0o600))
				r.kept["LOGIN"] = []string{"-token-file", jwt}
			}
			for _, s := range verbSteps {
				if program == bin || !slices.Contains(laterVerbs, s.verb) {
					r.run(s)
				}
			}
		})
	}
}

// newVerbRun starts an agent with access control and an issuer, and writes the files of the steps.
func newVerbRun(t *testing.T, program, bin string) *verbRun {
	t.Helper()
	settings := agentConfig + "acl {\n  enabled = true\n}\n"
	r := &verbRun{cli: peerCLI{t: t, bin: program}}
	r.cli.addr = startAgent(t, bin, settings, "-dev", "-rpc-port", "0", "-serf-port", "0")
	c, err := public.NewClient(&public.Config{Address: r.cli.addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	awaitAnswer(t, "a leader", func(*public.QueryOptions) (bool, *public.QueryMeta, error) {
		leader, err := c.Status().Leader()
		return leader != "", nil, err
	})

	i := issuertest.New(t)
	dir := t.TempDir()
	file := func(name, text string) []string {
		path := filepath.Join(dir, name)
		checkNoError(t, "writing a file", os.WriteFile(path, []byte(text), 0o600))
		return []string{path}
	}
	r.kept = map[string][]string{
		"POLICY": file("nodes.hcl", "node {\n  policy = \"read\"\n}\n"),
		"JOBS":   file("jobs.hcl", "namespace \"default\" {\n  policy = \"read\"\n}\n"),
		"CONFIG": file("ci.json", `{"JWKSURL": "`+i.URL+`/keys", "BoundAudiences": ["berth"], `+
			`"ListClaimMappings": {"groups": "groups"}}`),
		"SELECTOR": {`"dev" in list.groups`},
		"LOGIN":    {"-login-token", i.JWT(map[string]any{"groups": []string{"dev"}})},
	}
	return r
}

// listed finds a command in the help of the peer's command line.
var listed = regexp.MustCompile(`(?m)^    ([a-z-]+)\s`)

// verbsBelow returns the verbs below a noun, by the help of the peer's command line.
func verbsBelow(t *testing.T, bin, noun string) (verbs []string) {
	p := peerCLI{t: t, bin: bin}
	_, help := p.result(append(strings.Fields(noun), "-h")...)
	_, commands, isGroup := strings.Cut(help, "\nSubcommands:\n")
	if !isGroup {
		return []string{noun}
	}
	for _, m := range listed.FindAllStringSubmatch(commands, -1) {
		verbs = append(verbs, verbsBelow(t, bin, noun+" "+m[1])...)
	}
	return verbs
}
