package validate

import (
	"slices"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// checkCheck checks a check of the service s of group g. Its type decides which settings it may have.
func checkCheck(f field.Errors, c *structs.ServiceCheck, s *structs.OwnedService, g *structs.TaskGroup) {
	for _, t := range []struct {
		name, text string
		most       int
	}{
		{"name", c.Name, structs.MaxName},
		{"path", c.Path, structs.MaxText},
		{"protocol", c.Protocol, structs.MaxName},
		{"method", c.Method, structs.MaxName},
		{"body", c.Body, structs.MaxText},
		{"port", c.PortLabel, structs.MaxName},
		{"address_mode", c.AddressMode, structs.MaxName},
	} {
		f.CheckString(t.name, t.text, t.most)
	}

	f.Require(c.Type == structs.CheckHTTP || len(c.Header) == 0, "header is that of a check of type http")
	f.CheckOneOf("type", c.Type, []string{structs.CheckHTTP, structs.CheckTCP, structs.CheckGRPC,
		structs.CheckScript})
	f.CheckOneOf("on_update", c.OnUpdate,
		[]string{structs.OnUpdateRequireHealthy, structs.OnUpdateIgnoreWarnings, structs.OnUpdateIgnore})
	checkPace(f, c)
	f.CheckText("tls_server_name", c.TLSServerName)
	f.CheckText("grpc_service", c.GRPCService)
	checkServiceTask(f, g, c.TaskName)
	checkCheckRestart(f.At("check_restart"), c.CheckRestart)
	if c.Expose {
		checkExpose(f, c, s, g)
	}

	// A script connects to nothing, so the rest does not apply to it.
	if c.Type == structs.CheckScript {
		checkScript(f, c)
		return
	}

	f.Require(c.Command == "" && len(c.Args) == 0, "command and args are those of a check of type script")
	if c.AddressMode != "" {
		checkAddressMode(f, s, g, c.AddressMode)
	}

	port := c.PortLabel
	checkServicePort(f, g, "port", port)
	f.Require(port != "" || s.PortLabel != "", "a port is required, in the check or in its service")
	if c.Type == structs.CheckHTTP {
		checkHTTP(f, c)
		return
	}

	f.Require(c.Path == "" && len(c.Header) == 0 && c.Body == "" && c.Method == "",
		"path, method, header and body are those of a check of type http")
}

// checkPace checks how often a check runs, and how many results change its status.
func checkPace(f field.Errors, c *structs.ServiceCheck) {
	f.Require(c.Interval >= structs.MinCheckInterval, "interval must be at least %s",
		structs.MinCheckInterval)
	f.CheckDuration("interval", c.Interval, structs.MaxTaskWait)
	f.Require(c.Timeout >= structs.MinCheckInterval, "timeout must be at least %s", structs.MinCheckInterval)
	f.CheckDuration("timeout", c.Timeout, structs.MaxTaskWait)
	f.Require(slices.Contains([]string{"", structs.CheckPassing, structs.CheckWarning, structs.CheckPending},
		c.InitialStatus),
		"initial_status %q must be one of passing, warning, critical, pending", c.InitialStatus)
	f.CheckRange("success_before_passing", c.SuccessBeforePassing, field.Between(0, structs.MaxRestarts))
	f.CheckRange("failures_before_critical", c.FailuresBeforeCritical, field.Between(0, structs.MaxRestarts))
}

// checkScript checks the command of a check that runs in a task. The bound of bytes is for all arguments,
// which the node hands to one exec.
func checkScript(f field.Errors, c *structs.ServiceCheck) {
	f.Require(c.Command != "", "command is required")
	f.CheckText("command", c.Command)
	size := len(c.Command)
	for _, arg := range field.FirstOf(f, "args", c.Args, structs.MaxExecArgs) {
		f.CheckText("args: an argument", arg)
		size += len(arg)
	}
	f.CheckBytes("command and args", size, structs.MaxExecBytes)
	f.Require(c.TaskName != "", "task is required: the task in which the script runs")
}

// ExpandedCheck checks the texts of a check, once the node has replaced their placeholders.
func ExpandedCheck(c *structs.ServiceCheck) error {
	f := field.New("")
	if c.Type == structs.CheckHTTP {
		checkHTTP(f, c)
	}
	return f.Err()
}

// checkHTTP leaves texts with placeholders to the node.
func checkHTTP(f field.Errors, c *structs.ServiceCheck) {
	if !structs.HasPlaceholder(c.Protocol) {
		f.CheckOneOf("protocol", c.Protocol, []string{"http", "https"})
	}

	// A path that begins with a placeholder may get its slash with the value.
	f.Require(strings.HasPrefix(c.Path, "/") || strings.HasPrefix(c.Path, structs.Placeholder),
		"path %q must begin with /", c.Path)
	f.CheckText("path", c.Path)
	f.CheckText("body", c.Body)
	if !structs.HasPlaceholder(c.Method) {
		f.CheckOneOf("method", c.Method,
			[]string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
	}

	size := 0
	for name, values := range c.Header {
		f.Require(structs.HasPlaceholder(name) || field.IsHeader(name),
			"header: %q is not the name of a header", name)
		for _, v := range values {
			// A line break would end the header, and begin another one.
			f.Require(field.IsHeaderValue(v), "header: the value of %q must be one line", name)
			size += len(name) + len(v)
		}
	}

	f.CheckBytes("header", size, structs.MaxText)
}

// checkCheckRestart checks when failures of a check restart its task. nil restarts none.
func checkCheckRestart(f field.Errors, r *structs.CheckRestart) {
	if r == nil {
		return
	}
	f.CheckRange("limit", r.Limit, field.Between(0, structs.MaxRestarts))
	if r.Grace != nil {
		f.CheckDuration("grace", *r.Grace, structs.MaxTaskWait)
	}
}

// checkExpose checks an exposed check.
func checkExpose(f field.Errors, c *structs.ServiceCheck, s *structs.OwnedService, g *structs.TaskGroup) {
	sidecar := s.Owner == "" && s.Connect != nil && s.Connect.SidecarService != nil
	f.Require(sidecar, "expose is for services of groups with connect { sidecar_service {} }")
	f.Require(c.Type == structs.CheckHTTP && c.Protocol == "http",
		"expose is for checks of type http with protocol http; for others write expose in the proxy")
	if !sidecar {
		return
	}

	// The sidecar has to know the port to which it passes the requests of the check.
	_, known := g.LocalPort(s.Service)
	f.Require(known, "expose: the port of the service inside the network namespace is not known; "+
		"write port = NUMBER in the service, or to in its port of the group")
}
