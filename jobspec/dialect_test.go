package jobspec

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"berth/internal/conf"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
)

const outdated = `job "j" {
  ui {
    description = "x"
  }
  group "g" {
    restart {
      render_templates = true
    }
    network {
      mbits = 10
      port "http" {}
    }
    task "t" {
      driver = "docker"
      config {
        image = "x"
        port_map {
          db = 6379
        }
      }
      logs {
        enabled = false
      }
      resources {
        disk = 64
        iops = 0
        network {
          port "db" {}
          port "ssh" {
            static = 22
          }
        }
      }
      template {
        data        = "x"
        destination = "local/x"
        vault_grace = "33s"
      }
    }
  }
}
`

// TestReadJob_WarnsOfNamesWithoutEffect reads names that the dialect has, or had, and whose absence no job
// notices.
func TestReadJob_WarnsOfNamesWithoutEffect(t *testing.T) {
	f, err := ReadJob("j.hcl", []byte(outdated), &Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`j.hcl:2,3: "ui" has no effect`,
		`j.hcl:7,7: "render_templates" has no effect`,
		`j.hcl:10,7: "mbits" has no effect`,
		`j.hcl:25,9: "disk" has no effect: the group's ephemeral_disk requests scratch space`,
		`j.hcl:37,9: "vault_grace" has no effect`,
		`j.hcl:27,9: the ports of a network in resources are those of the group; write network in the group`,
	}
	for i, w := range conf.Warnings(f.Warnings) {
		if i >= len(want) || !strings.HasPrefix(w, want[i]) {
			t.Errorf("warning %d: got %s", i, w)
		}
	}
	if len(f.Warnings) != len(want) {
		t.Errorf("got %d warnings, want %d: %q", len(f.Warnings), len(want), f.Warnings)
	}
	task := f.Job.TaskGroups[0].Tasks[0]
	if !task.LogConfig.Disabled {
		t.Error("enabled = false does not disable the logs")
	}
	defaults.Canonicalize(f.Job)
	if err := validate.Job(f.Job); err != nil {
		t.Error(err)
	}
}

func TestReadJob_ReadsWhetherLogsAreDisabled(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                 false,
		"disabled = true":                  true,
		"disabled = false":                 false,
		"enabled = false":                  true,
		"enabled = true":                   false,
		"disabled = true\n enabled = true": true,
	} {
		job := "job \"j\" {\n group \"g\" {\n task \"t\" {\n driver = \"exec\"\n" +
			"logs {\n" + text + "\n}\n}\n}\n}"
		j, err := parseJob("j.hcl", []byte(job))
		if err != nil {
			t.Fatal(err)
		}
		if got := j.TaskGroups[0].Tasks[0].LogConfig.Disabled; got != want {
			t.Errorf("%q: got %t", text, got)
		}
	}
}

// TestReadJob_WarnsOfNamespacesOfConsul reads blocks that name a part of Consul, of which berth has one.
func TestReadJob_WarnsOfNamespacesOfConsul(t *testing.T) {
	const reason = `has no effect: namespaces are those of Consul Enterprise; berth uses that of the agent`
	file := func(job, group, task string) string {
		return "job \"j\" {\n" + job + "\ngroup \"g\" {\n" + group +
			"\ntask \"t\" {\ndriver = \"exec\"\n" + task + "\n}\n}\n}"
	}
	plain, err := parseJob("j.hcl", []byte(file("", "", "")))
	if err != nil {
		t.Fatal(err)
	}
	const block = "consul {\n namespace = \"banana\"\n cluster = \"default\"\n partition = \"\"\n}"
	const empty = "consul {\n namespace = \"\"\n}"
	for src, want := range map[string]string{
		file(block, "", ""):                           `j.hcl:3,2: "namespace" ` + reason,
		file("", block, ""):                           `j.hcl:5,2: "namespace" ` + reason,
		file("", "", block):                           `j.hcl:8,2: "namespace" ` + reason,
		file("consul_namespace = \"banana\"", "", ""): `j.hcl:2,1: "consul_namespace" ` + reason,
		file(empty, empty, empty):                     "",
	} {
		f, err := ReadJob("j.hcl", []byte(src), &Inputs{})
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if got := strings.Join(conf.Warnings(f.Warnings), "\n"); got != want {
			t.Errorf("%s: got the warnings %q, want %q", src, got, want)
		}

		// The block itself is stored: the servers give its tasks an identity for Consul.
		for _, g := range f.Job.TaskGroups {
			g.Consul = nil
			g.Tasks[0].Consul = nil
		}

		if !reflect.DeepEqual(f.Job, plain) {
			t.Errorf("%s: the namespace changes the job: %+v", src, f.Job)
		}
	}
	for argument, want := range map[string]string{
		`cluster = "two"`:  `j.hcl:6,11: invalid value for "cluster": a node has one Consul, not "two"`,
		`partition = "p"`:  `"partition" is not supported by berth: partitions are those of Consul Enterprise`,
		`name_space = "a"`: `unsupported argument "name_space"`,
	} {
		_, err := parseJob("j.hcl", []byte(file("", "consul {\n\n"+argument+"\n}", "")))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", argument, err, want)
		}
	}
}

// TestReadJob_MovesPortsOfTasks reads ports where the dialect had them before groups had networks.
func TestReadJob_MovesPortsOfTasks(t *testing.T) {
	j, err := parseJob("j.hcl", []byte(outdated))
	if err != nil {
		t.Fatal(err)
	}
	g := j.TaskGroups[0]
	if len(g.Networks) != 1 {
		t.Fatalf("got %d networks, want one", len(g.Networks))
	}
	n := g.Networks[0]
	if len(n.DynamicPorts) != 2 || n.DynamicPorts[1].Label != "db" || n.DynamicPorts[1].To != 6379 {
		t.Errorf("dynamic ports: got %+v", n.DynamicPorts)
	}
	if len(n.ReservedPorts) != 1 || n.ReservedPorts[0].Value != 22 {
		t.Errorf("static ports: got %+v", n.ReservedPorts)
	}
	config := g.Tasks[0].Config
	ports, _ := config["ports"].([]any)
	if len(ports) != 2 || ports[0] != "db" || ports[1] != "ssh" || config["port_map"] != nil {
		t.Errorf("got the config %v", config)
	}
}

// TestReadJob_LeavesUnusablePortMaps leaves what is not the number of a port of the network to the driver,
// which rejects it.
func TestReadJob_LeavesUnusablePortMaps(t *testing.T) {
	for given, want := range map[string]bool{
		`port_map { a = 80 }`:                          false,
		`port_map = { a = 80 }`:                        false,
		`port_map = [{ a = 80 }]`:                      false,
		`port_map { a = "x" }`:                         true,
		`port_map { a = 70000 }`:                       true,
		`port_map { b = 80 }`:                          true,
		"port_map { a = 80 }\nnetwork_mode = \"host\"": true,
	} {
		j, err := parseJob("j.hcl", []byte(`job "j" {
  task "t" {
    driver = "docker"
    config {
      `+given+`
    }
    resources {
      network {
        port "a" {}
      }
    }
  }
}`))
		if err != nil {
			t.Fatal(err)
		}
		_, left := j.TaskGroups[0].Tasks[0].Config["port_map"]
		if left != want {
			t.Errorf("%s: it is left: %t, want %t", given, left, want)
		}
	}
}

// TestReadJob_ReadsAllowedFiles reads files elsewhere only if the caller has named them or a folder above.
func TestReadJob_ReadsAllowedFiles(t *testing.T) {
	dir := t.TempDir()
	home := t.TempDir()
	t.Setenv("HOME", home)
	for name, text := range map[string]string{
		"key":        "k3y",
		"sub/a":      "a",
		"sub/in/b":   "b",
		"subsequent": "s3cret",
	} {
		name = filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(home, "subsequent"), filepath.Join(home, "sub", "out")); err != nil {
		t.Fatal(err)
	}
	allowed := []string{filepath.Join(home, "key"), filepath.Join(home, "sub")}
	up, err := filepath.Rel(dir, home)
	if err != nil {
		t.Fatal(err)
	}
	for expression, want := range map[string]string{
		`file(pathexpand("~/key"))`:                          "k3y",
		`file("` + up + `/key")`:                             "k3y",
		`file(pathexpand("~/sub/in/../in/b"))`:               "b",
		`fileexists(pathexpand("~/key"))`:                    "true",
		`join(",", fileset(pathexpand("~/sub"), "**/[ab]"))`: "a,in/b",
		`file(pathexpand("~/subsequent"))`:                   "!is not in the folder of the job file; -allow-path",
		`file(pathexpand("~/sub/../subsequent"))`:            "!is not in the folder of the job file",
		`file(pathexpand("~/sub/out"))`:                      "!path escapes from parent",
		`file(pathexpand("~/key/x"))`:                        "!not a directory",
		`join(",", fileset(pathexpand("~"), "*"))`:           "!is not in the folder of the job file",
		`file("key")`: "!no such file",
	} {
		src := metaFile("", "v = "+expression)
		f, err := ReadJob("j.hcl", src, &Inputs{Dir: dir, Allowed: allowed})
		fault, fails := strings.CutPrefix(want, "!")
		switch {
		case fails && (err == nil || !strings.Contains(err.Error(), fault)):
			t.Errorf("%s: got %v, want %s", expression, err, fault)
		case !fails && err != nil:
			t.Errorf("%s: %v", expression, err)
		case !fails && f.Job.Meta["v"] != want:
			t.Errorf("%s: got %q, want %q", expression, f.Job.Meta["v"], want)
		}
		if _, err := ReadJob("j.hcl", src, &Inputs{Allowed: allowed}); err == nil {
			t.Errorf("%s: an agent reads the file", expression)
		}
	}
}

func TestFunctions_DecryptWithRSA(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	//nolint:staticcheck // the function of job files has this padding
	secret, err := rsa.EncryptPKCS1v15(rand.Reader, &key.PublicKey, []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	in := &Inputs{Vars: []string{"key=" + string(text), "secret=" + base64.StdEncoding.EncodeToString(secret)}}
	const variables = "variable \"key\" {}\nvariable \"secret\" {}\n"
	f, err := ReadJob("j.hcl", metaFile(variables, "v = rsadecrypt(var.secret, var.key)"), in)
	if err != nil || f.Job.Meta["v"] != "hello" {
		t.Errorf("got %v, %v", f.Job, err)
	}
	long := metaFile("", `v = rsadecrypt("a", join("", [for i in range(1000) : "01234567"]))`)
	_, err = parseJob("j.hcl", long)
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "arguments are too large") {
		t.Errorf("got %v, want the bound of a key", err)
	}
}
