package jobspec

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
)

const serviceInHCL = `job "j" {
  group "g" {
    network {
      port "http" {}
    }
    service {
      name        = "web"
      task        = "t"
      port        = "http"
      provider    = "nomad"
      on_update   = "ignore"
      tags        = ["a", "b"]
      canary_tags = ["c"]
      meta {
        k = "v"
      }
      canary_meta = { k = "w" }
      check_restart {
        limit           = 3
        ignore_warnings = true
      }
      check {
        name     = "up"
        type     = "http"
        path     = "/up"
        method   = "POST"
        body     = "x"
        interval = "10s"
        timeout  = "2s"
        header {
          Accept = ["text/plain", "text/html"]
        }
        tls_skip_verify          = true
        initial_status           = "passing"
        success_before_passing   = 2
        failures_before_critical = 4
        check_restart {
          grace = "1m"
        }
      }
    }
    task "t" {
      driver = "exec"
      service {
        provider = "berth"
        port     = "80"
        address  = "192.0.2.1"
        check {
          type      = "script"
          command   = "/ping"
          args      = ["-a"]
          interval  = "1s"
          timeout   = "1s"
          on_update = "ignore_warnings"
        }
        check {
          type          = "grpc"
          port          = "http"
          grpc_service  = "s"
          grpc_use_tls  = true
          interval      = "1s"
          timeout       = "1s"
          tls_server_name = "n"
        }
      }
    }
  }
}
`

const serviceInJSON = `{"job": {"j": {"group": {"g": {
  "network": {"port": {"http": {}}},
  "service": {
    "name": "web", "task": "t", "port": "http", "provider": "nomad", "on_update": "ignore",
    "tags": ["a", "b"], "canary_tags": ["c"], "meta": {"k": "v"}, "canary_meta": {"k": "w"},
    "check_restart": {"limit": 3, "ignore_warnings": true},
    "check": {
      "name": "up", "type": "http", "path": "/up", "method": "POST", "body": "x",
      "interval": "10s", "timeout": "2s", "header": {"Accept": ["text/plain", "text/html"]},
      "tls_skip_verify": true, "initial_status": "passing", "success_before_passing": 2,
      "failures_before_critical": 4, "check_restart": {"grace": "1m"}
    }
  },
  "task": {"t": {"driver": "exec", "service": [{
    "provider": "berth", "port": "80", "address": "192.0.2.1",
    "check": [
      {"type": "script", "command": "/ping", "args": ["-a"], "interval": "1s", "timeout": "1s",
       "on_update": "ignore_warnings"},
      {"type": "grpc", "port": "http", "grpc_service": "s", "grpc_use_tls": true, "interval": "1s",
       "timeout": "1s", "tls_server_name": "n"}
    ]
  }]}}
}}}}}`

// wantServices are the services of both, as the servers keep them.
const wantServices = `[{"Name":"web","TaskName":"t","PortLabel":"http","AddressMode":"auto","Provider":"berth",` +
	`"OnUpdate":"ignore","Tags":["a","b"],"CanaryTags":["c"],"Meta":{"k":"v"},"CanaryMeta":{"k":"w"},` +
	`"Checks":[{"Name":"up","Type":"http","Path":"/up","Protocol":"http","Method":"POST",` +
	`"Header":{"Accept":["text/plain","text/html"]},"Body":"x","Interval":10000000000,"Timeout":2000000000,` +
	`"InitialStatus":"success","TLSSkipVerify":true,"SuccessBeforePassing":2,"FailuresBeforeCritical":4,` +
	`"OnUpdate":"ignore","CheckRestart":{"Limit":3,"Grace":60000000000,"IgnoreWarnings":true}}],` +
	`"CheckRestart":{"Limit":3,"Grace":null,"IgnoreWarnings":true}}]` +
	` [{"Name":"j-g-t","PortLabel":"80","AddressMode":"auto","Address":"192.0.2.1","Provider":"berth",` +
	`"OnUpdate":"require_healthy","Tags":null,"Checks":[{"Name":"service: \"j-g-t\" check","Type":"script",` +
	`"Command":"/ping","Args":["-a"],"Interval":1000000000,"Timeout":1000000000,"TaskName":"t",` +
	`"OnUpdate":"ignore_warnings"},{"Name":"service: \"j-g-t\" check","Type":"grpc","PortLabel":"http",` +
	`"Interval":1000000000,"Timeout":1000000000,"TLSServerName":"n","GRPCService":"s","GRPCUseTLS":true,` +
	`"OnUpdate":"require_healthy"}]}]`

func TestReadJob_ReadsServicesInBothForms(t *testing.T) {
	for _, src := range []string{serviceInHCL, serviceInJSON} {
		f, err := ReadJob("j", []byte(src), &Inputs{})
		if err != nil {
			t.Fatal(err)
		}
		defaults.Canonicalize(f.Job)
		if err := f.Locate(validate.Job(f.Job)); err != nil {
			t.Error(err)
		}
		g := f.Job.TaskGroups[0]
		got := marshalServices(t, g.Services) + " " + marshalServices(t, g.Tasks[0].Services)
		if got != wantServices {
			t.Errorf("got\n%s\nwant\n%s", got, wantServices)
		}
	}
}

func marshalServices(t *testing.T, list []*structs.Service) string {
	t.Helper()
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// serviceFile is a job file with a service that has more lines.
func serviceFile(lines string) string {
	return head + "    service {\n      port = 80\n" + lines + "\n    }" + tail
}

func checkLines(lines string) string {
	return "check {\n type = \"http\"\n path = \"/\"\n interval = \"1s\"\n timeout = \"1s\"\n" + lines + "\n}"
}

// TestReadJob_RejectsServicesWithAReason has a fault in each service.
func TestReadJob_RejectsServicesWithAReason(t *testing.T) {
	const ours = "provider = \"berth\"\n"
	for _, c := range []struct{ lines, want string }{
		{`provider = "dns"`, `provider`},
		{`connect {}`, `it has 0 of native = true, sidecar_service and gateway`},
		{ours + `enable_tag_override = true`, `enable_tag_override is for services with provider = "consul"`},
		{`tagged_addresses { lan = "a.example" }`, `"a.example" is neither an IP address nor "host:port"`},
		{"identity {\n aud = [\"x\"]\n env = true\n}", `env, file and filepath are for the identity of a task`},
		{`weights { passing = 70000 }`, `passing 70000 must be at most 65535`},
		{`kind = "api-gateway"`, `"kind" is not supported by berth yet`},
		{`cluster = "other"`, `a node has one Consul, not "other"`},
		{checkLines(`expose = true`), `expose is for services of groups with connect`},
		{checkLines(`advertise = "x"`), `"advertise" is not supported by berth yet`},
		{`check { type = "tcp" }`, `missing argument "interval"`},
		{ours + `address_mode = "alloc"`, `the allocations of the group have no addresses of their own`},
		{ours + `address_mode = "driver"`, `address_mode "driver" is for a service of a task`},
		{ours + `task = "other"`, `the group has no such task`},
		{ours + `name = "a_b"`, `must be 1 to 63 letters, digits and dashes`},
		{ours + checkLines("method = \"SEND\""), `method`},
		{ours + checkLines("header {\n\"a b\" = [\"c\"]\n}"), `is not the name of a header`},
		{ours + checkLines("command = \"/x\""), `command and args are those of a check of type script`},
		{ours + `check_restart { limit = -1 }`, `limit`},
	} {
		f, err := ReadJob("j.hcl", []byte(serviceFile(c.lines)), &Inputs{})
		if err == nil {
			defaults.Canonicalize(f.Job)
			err = f.Locate(validate.Job(f.Job))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngot %v, want %q", c.lines, err, c.want)
		}
	}
}

// TestReadJob_WarnsOfNotes has a name without an effect.
func TestReadJob_WarnsOfNotes(t *testing.T) {
	src := serviceFile("provider = \"berth\"\n" + checkLines("notes = \"a note\""))
	f, err := ReadJob("j.hcl", []byte(src), &Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	defaults.Canonicalize(f.Job)
	if err := validate.Job(f.Job); err != nil {
		t.Error(err)
	}
	if len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0].Summary, "nothing shows the notes of a check") {
		t.Errorf("the warnings are %q", f.Warnings)
	}
}

// TestReadJob_RegistersServicesInConsulByDefault reads services without a provider.
func TestReadJob_RegistersServicesInConsulByDefault(t *testing.T) {
	f, err := ReadJob("j.hcl", []byte(serviceFile(`enable_tag_override = true
		tagged_addresses {
			lan = "192.0.2.1"
		}
		weights {
			passing = 3
		}`)), &Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	defaults.Canonicalize(f.Job)
	for s := range f.Job.TaskGroups[0].AllServices() {
		if s.Provider != structs.ServiceProviderConsul || !s.EnableTagOverride ||
			s.TaggedAddresses["lan"] != "192.0.2.1" || *s.Weights != (structs.ServiceWeights{Passing: 3, Warning: 1}) {
			t.Errorf("got %+v", s.Service)
		}
	}
}
