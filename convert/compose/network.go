package compose

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"berth/structs"
)

// usualPorts are the ports of programs whose compose files rarely name them, by the name of the image.
var usualPorts = map[string]int{
	"elasticsearch": 9200,
	"mariadb":       3306,
	"memcached":     11211,
	"mongo":         27017,
	"mysql":         3306,
	"postgres":      5432,
	"rabbitmq":      5672,
	"redis":         6379,
	"valkey":        6379,
}

// findPorts finds the port by which the others reach each service: a published or exposed one, one that an
// environment names beside the service, or the usual one of its program.
func (c *converter) findPorts() {
	for _, name := range c.names() {
		s := c.project.Services[name]
		port := 0
		switch {
		case len(s.Ports) > 0:
			port = int(s.Ports[0].Target)
		case len(s.Expose) > 0:
			port, _ = strconv.Atoi(s.Expose[0])
		}
		if port == 0 {
			port = c.namedPort(name)
		}
		if port == 0 {
			image := s.Image[strings.LastIndex(s.Image, "/")+1:]
			image, _, _ = strings.Cut(image, "@")
			image, _, _ = strings.Cut(image, ":")
			port = usualPorts[image]
		}
		if 0 < port && port <= structs.MaxPort {
			c.inside[name] = port
		}
	}
}

// address returns the pattern of NAME:PORT in a text.
func address(name string) *regexp.Regexp {
	return regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(name) + `:(\d{1,5})\b`)
}

// namedPort returns the port that an environment of another service has beside a name, 0 for none.
func (c *converter) namedPort(name string) int {
	pattern := address(name)
	for _, other := range c.names() {
		for _, value := range sorted(c.written[other]) {
			m := pattern.FindStringSubmatch(value)
			if m != nil && other != name {
				port, _ := strconv.Atoi(m[2])
				return port
			}
		}
	}
	return 0
}

// label returns the label of a port of a service: its name, or the name of the protocol.
func label(name string, port int) string {
	switch port {
	case 80, 8080:
		return "http"
	case 443, 8443:
		return "https"
	}
	return structs.VariableName(name)
}

// network adds the ports of a service to its group, and offers the service to others.
func (c *converter) network(g *structs.TaskGroup, t *structs.Task, s *types.ServiceConfig) {
	n := &structs.NetworkResource{}
	if len(g.Networks) > 0 {
		n = g.Networks[0]
	}
	inBridge := c.inBridge(g.Name)
	if inBridge {
		n.Mode = structs.NetworkModeBridge
		g.Networks = []*structs.NetworkResource{n}
	}
	switch {
	case s.NetworkMode == "host" || s.NetworkMode == "none":
		t.Config["network_mode"] = s.NetworkMode
	case s.NetworkMode != "" && s.NetworkMode != "bridge" && !inBridge:
		c.lost(g.Name+"/"+t.Name, "network_mode "+s.NetworkMode, "write the mode of the network of the group")
	}

	main := ""
	seen := map[uint32]bool{}
	ports := s.Ports
	if len(ports) == 0 && c.inside[s.Name] > 0 {
		ports = []types.ServicePortConfig{{Target: uint32(c.inside[s.Name])}}
	}
	if s.NetworkMode == "none" {
		ports = nil // nobody reaches it
	}
	for _, p := range ports {
		if seen[p.Target] { // for another protocol: a port of berth is one of both
			continue
		}
		seen[p.Target] = true
		port := c.port(g, n, s, &p)
		g.Networks = []*structs.NetworkResource{n}
		if main == "" {
			main = port
		}
		if s.NetworkMode == "" && !inBridge {
			labels, _ := t.Config["ports"].([]any)
			t.Config["ports"] = append(labels, port)
		}
	}
	c.service(g, t, s, main)
}

// inBridge reports whether the tasks of a group share one network: a service of it is in the network of
// another one.
func (c *converter) inBridge(group string) bool {
	for name, s := range c.project.Services {
		if c.groupOf[name] == group && strings.HasPrefix(s.NetworkMode, "service:") {
			return true
		}
	}
	return false
}

// port adds a port to a network, and returns its label.
func (c *converter) port(g *structs.TaskGroup, n *structs.NetworkResource, s *types.ServiceConfig,
	p *types.ServicePortConfig) string {
	out := structs.Port{Label: label(s.Name, int(p.Target)), To: int(p.Target)}
	g.Networks = []*structs.NetworkResource{n}
	if g.HasPort(out.Label) {
		out.Label = structs.VariableName(s.Name) + "_" + strconv.Itoa(int(p.Target))
	}
	place := g.Name
	static, err := strconv.Atoi(p.Published)
	switch {
	case s.NetworkMode == "host": // it listens on the node itself, and nothing publishes its ports
		out.Value = out.To
	case p.Published == "":
	case err != nil:
		c.lost(place, "the ports "+p.Published, "the servers choose a port")
	default:
		out.Value = static
	}
	if p.HostIP != "" && p.HostIP != "0.0.0.0" && p.HostIP != "::" {
		c.lost(place, "the address "+p.HostIP+" of port "+p.Published,
			"name a host_network of the node in the port")
	}
	if out.Value == out.To {
		out.To = 0
	}

	if out.Value == 0 {
		n.DynamicPorts = append(n.DynamicPorts, out)
		return out.Label
	}
	n.ReservedPorts = append(n.ReservedPorts, out)
	if g.Count > 1 {
		c.note(place, "port %d is on one instance of each node: leave static out for more", out.Value)
	}
	return out.Label
}

// offered returns the name under which berth has a service.
func (c *converter) offered(name string) string {
	if name != c.job.ID {
		name = c.job.ID + "-" + name
	}
	plain := strings.NewReplacer("_", "-", ".", "-").Replace(name)
	return strings.Trim(plain[:min(len(plain), maxServiceName)], "-")
}

const maxServiceName = 63

// service offers the service, with its health check.
func (c *converter) service(g *structs.TaskGroup, t *structs.Task, s *types.ServiceConfig, port string) {
	check := c.check(g.Name+"/"+t.Name, t, s)
	if port == "" && check == nil {
		return
	}
	out := &structs.Service{
		Name:      c.offered(s.Name),
		PortLabel: port,
		Provider:  structs.ServiceProviderBerth,
	}
	if check != nil {
		out.Checks = []*structs.ServiceCheck{check}
	}
	g.Services = append(g.Services, out)
}

// check converts a health check, and turns off the image's. It is nil without one.
func (c *converter) check(place string, t *structs.Task, s *types.ServiceConfig) *structs.ServiceCheck {
	h := s.HealthCheck
	if h == nil {
		return nil
	}
	if h.Disable || len(h.Test) > 0 && h.Test[0] == "NONE" {
		t.Config["healthchecks"] = []any{map[string]any{"disable": true}}
		return nil
	}
	if len(h.Test) < 2 {
		c.lost(place, "healthcheck", "write a check of the service")
		return nil
	}

	out := &structs.ServiceCheck{
		Name:     "healthy",
		Type:     structs.CheckScript,
		TaskName: t.Name,
		Command:  h.Test[1],
		Args:     h.Test[2:],
		Interval: span(h.Interval),
		Timeout:  span(h.Timeout),
	}
	if h.Test[0] == "CMD-SHELL" {
		out.Command = "/bin/sh"
		out.Args = []string{"-c", h.Test[1]}
	}
	if h.Retries != nil && *h.Retries > 1 && *h.Retries <= maxAttempts {
		out.FailuresBeforeCritical = int(*h.Retries) - 1
	}
	if h.StartPeriod != nil {
		c.lost(place, "start_period of healthcheck", "an update waits for healthy_deadline")
	}
	if h.StartInterval != nil {
		c.lost(place, "start_interval of healthcheck", "a check has one interval")
	}
	return out
}

// span returns a duration of a health check, which is half a minute by default.
func span(d *types.Duration) time.Duration {
	if d == nil {
		return 30 * time.Second
	}
	return max(time.Duration(*d), structs.MinCheckInterval)
}
