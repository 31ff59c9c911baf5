package compose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/compose-spec/compose-go/v2/types"
	envparse "github.com/hashicorp/go-envparse"

	"berth/structs"
)

// convert converts a compose file that has to be accepted.
func convert(t *testing.T, src string, env ...string) *Result {
	t.Helper()
	o := options()
	o.Env = env
	r, err := Convert(t.Context(), filepath.Join(t.TempDir(), "shop.yaml"), []byte(src), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestConvert_KeepsSecretsOut: neither a value of the shell nor one that looks like a secret is in the job
// file.
func TestConvert_KeepsSecretsOut(t *testing.T) {
	t.Parallel()
	r := convert(t, `
services:
  a:
    image: a:${TAG}
    environment:
      FROM_SHELL: ${SECRET_OF_SHELL}
      MIXED: "postgres://u:${SECRET_OF_SHELL}@h/x"
      PASSED:
      ROOT_PASSWORD: geheim-plain
      API_KEY: geheim-key
      DOLLAR_PASSWORD: "geheim$$word"
      DEFAULT_PASSWORD: ${DEFAULT_PASSWORD:-geheim}
      LOGIN: "postgres://u:${PW:-geheim}@h/x"
      LOGIN_AT: "postgres://u:geheim@${PLACE}/x"
      TOKEN_FILE: /run/secrets/token
      WITH_DEFAULT: ${LEVEL:-info}
`, "SECRET_OF_SHELL=geheim-shell", "PASSED=geheim-passed", "TAG=3")
	all := string(r.Text) + strings.Join(r.Notes, "\n")
	if strings.Contains(all, "geheim") {
		t.Errorf("a secret is in the file or in its notes:\n%s", all)
	}
	for _, want := range []string{
		`image = "a:3"`,
		`FROM_SHELL={{ $vars.SECRET_OF_SHELL.Value | toJSON }}`,
		`PASSED={{ $vars.PASSED.Value | toJSON }}`,
		`MIXED={{ printf "postgres://u:%s@h/x" $vars.SECRET_OF_SHELL.Value | toJSON }}`,
		`WITH_DEFAULT = "info"`,
		`ROOT_PASSWORD={{ $vars.ROOT_PASSWORD.Value | toJSON }}`,
		`API_KEY={{ $vars.API_KEY.Value | toJSON }}`,
		`DOLLAR_PASSWORD={{ $vars.DOLLAR_PASSWORD.Value | toJSON }}`,
		`DEFAULT_PASSWORD={{ $vars.DEFAULT_PASSWORD.Value | toJSON }}`,
		`LOGIN={{ $vars.LOGIN.Value | toJSON }}`,
		`LOGIN_AT={{ $vars.LOGIN_AT.Value | toJSON }}`,
		`"/run/secrets/token"`, "berth var put nomad/jobs/shop API_KEY=@FILE",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("the file lacks %s:\n%s", want, all)
		}
	}
}

// TestConvert_NamesASecretOutsideOfEnvironments: the value of a variable in a command is in the job file.
func TestConvert_NamesASecretOutsideOfEnvironments(t *testing.T) {
	t.Parallel()
	r := convert(t, `
services:
  a:
    image: a:${TAG}
    command: ["serve", "--requirepass", "${REDIS_PASSWORD}"]
`, "REDIS_PASSWORD=geheim", "TAG=3")
	notes := strings.Join(r.Notes, "\n")
	if !strings.Contains(notes, "The value of REDIS_PASSWORD is in the job file") {
		t.Errorf("no note names the secret:\n%s", notes)
	}
	if strings.Contains(notes, "geheim") || strings.Contains(notes, "TAG") {
		t.Errorf("a note has a value, or names a variable that is no secret:\n%s", notes)
	}
}

// TestConvert_NotesWhatIsLost: each field of a service is carried, or named.
func TestConvert_NotesWhatIsLost(t *testing.T) {
	t.Parallel()
	r := convert(t, `
services:
  a:
    image: a:1
    mac_address: 02:42:ac:11:65:43
    cgroup_parent: x
    env_file: absent.env
    networks: [n]
    volumes: [/srv/x:/x, /anonymous]
    links: [b]
    post_start:
      - command: ["true"]
  b:
    image: b:1
    depends_on: [a]
    deploy:
      mode: global
      placement:
        constraints: ["node.role == manager"]
networks:
  n:
`)
	for _, want := range []string{
		"mac_address", "cgroup_parent", "env_file absent.env", "networks", "the directory /srv/x",
		"the anonymous volume at /anonymous",
		"links", "post_start", "depends_on a", "mode global", "constraint node.role == manager",
	} {
		if !strings.Contains(strings.Join(r.Notes, "\n"), "not carried: "+want) {
			t.Errorf("no note on %s in %q", want, r.Notes)
		}
	}
}

// TestCarried_HasFieldsOfServices: a name that no service has would hide a loss.
func TestCarried_HasFieldsOfServices(t *testing.T) {
	t.Parallel()
	var fields []string
	for _, part := range []any{types.ServiceConfig{}, types.ContainerSpec{}, types.WorkloadSpec{}} {
		typ := reflect.TypeOf(part)
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("yaml"), ",")
			fields = append(fields, name)
		}
	}
	for _, name := range carried {
		if !slices.Contains(fields, name) {
			t.Errorf("services have no field %s", name)
		}
		if _, twice := remedies[name]; twice {
			t.Errorf("%s is carried and has a remedy", name)
		}
	}
	for name := range remedies {
		if !slices.Contains(fields, name) {
			t.Errorf("services have no field %s", name)
		}
	}
}

// TestConvert_RejectsFaults with the file and the remedy.
func TestConvert_RejectsFaults(t *testing.T) {
	t.Parallel()
	many := "services:\n"
	for i := range maxServices + 1 {
		many += fmt.Sprintf("  s%d: {image: a}\n", i)
	}
	bomb := "l0: &l0 [1]\n"
	for i := range 8 {
		bomb += fmt.Sprintf("l%d: &l%d [%s*l%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*l%d,", i), 8), i)
	}
	for name, c := range map[string]struct{ src, want string }{
		"a variable without a value": {`services: {a: {image: "a:${TAG}"}}`, "TAG; set them in the environment"},
		"no YAML":                    {"services: [", "is not a compose file"},
		"no services":                {"services: {}", "no service"},
		"an unknown field":           {"services: {a: {image: a, imagine: b}}", "imagine"},
		"too many services":          {many, "divide it"},
		"too many instances":         {"services: {a: {image: a, scale: 100000}}", "has faults"},
		"too many bytes":             {"# " + strings.Repeat("x", structs.MaxSource), "at most"},
		"a cycle": {"services: {a: {image: a, depends_on: [b]}, b: {image: b, depends_on: [a]}}",
			"cycle"},
		"a bomb": {bomb + "services: {a: {image: a, x-a: *l8}}", ""},
	} {
		_, err := Convert(t.Context(), "compose.yaml", []byte(c.src), options())
		if structs.KindOf(err) != structs.KindInvalid || !strings.Contains(err.Error(), "compose.yaml") ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}

// FuzzConvert: a file is rejected, or its job is right. Convert holds the latter by itself.
func FuzzConvert(f *testing.F) {
	names, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		r, err := Convert(t.Context(), "fuzz.yaml", src, options())
		if err == nil && len(r.Text) == 0 {
			t.Error("no error and no file")
		}
	})
}

// TestConvert_TemplatesRender renders the environment of a task as a node does. The values have all kinds of
// signs.
func TestConvert_TemplatesRender(t *testing.T) {
	t.Parallel()
	r := convert(t, `
services:
  a:
    image: a:1
    environment:
      PLAIN: ${SECRET}
      URL: "postgres://u:${SECRET}@db:5432/x?a=100%&b={{ c }}&d=\"e\""
      BOTH: "db:5432,cache:6379"
      DB_HOST: db
      OTHER: "adb:5432 db:99"
  db: {image: "postgres:16"}
  cache: {image: "redis:7"}
`)
	secret := "p\"a's #$s\\ %s\n<&>"
	text := template.Must(template.New("env").Funcs(template.FuncMap{
		"nomadVar": func(path string) map[string]struct{ Value string } {
			if path != "nomad/jobs/shop" {
				t.Errorf("the path of the variable is %s", path)
			}
			return map[string]struct{ Value string }{"SECRET": {secret}}
		},
		"berthService": func(name string) []struct {
			Address string
			Port    int
		} {
			port := map[string]int{"shop-db": 20001, "shop-cache": 20002}[name]
			return []struct {
				Address string
				Port    int
			}{{"10.0.0.1", port}}
		},
		"toJSON": func(v any) (string, error) {
			b, err := json.Marshal(v)
			return string(b), err
		},
	}).Parse(r.Job.TaskGroups[0].Tasks[0].Templates[0].EmbeddedTmpl))
	var out bytes.Buffer
	err := text.Execute(&out, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := envparse.Parse(&out)
	if err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	want := map[string]string{
		"PLAIN":   secret,
		"URL":     "postgres://u:" + secret + "@10.0.0.1:20001/x?a=100%&b={{ c }}&d=\"e\"",
		"BOTH":    "10.0.0.1:20001,10.0.0.1:20002",
		"DB_HOST": "10.0.0.1:20001",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if env := r.Job.TaskGroups[0].Tasks[0].Env; env["OTHER"] != "adb:5432 db:99" {
		t.Errorf("the other variables are %q", env)
	}
}

// TestConvert_HostModeUsesThePortsOfTheNode: in this mode a program listens on the node itself, at the ports
// inside of the file. A service without a network has none.
func TestConvert_HostModeUsesThePortsOfTheNode(t *testing.T) {
	t.Parallel()
	text := string(convert(t, `
services:
  exposed:
    image: a:1
    network_mode: host
    expose: ["9100"]
  known:
    image: redis:8
    network_mode: host
  alone:
    image: postgres:18
    network_mode: none
`).Text)
	for _, want := range []string{"static = 9100\n", "static = 6379\n"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("the file has not one %s", want)
		}
	}
	if strings.Contains(text, "to =") || strings.Contains(text, "5432") || t.Failed() {
		t.Errorf("got\n%s", text)
	}
}
