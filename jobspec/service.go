package jobspec

import (
	"time"

	"berth/structs"
)

// The blocks of services and their checks. As in job.go, a block converts to its counterpart in structs.
type service struct {
	Name         string            `hcl:"name"`
	TaskName     string            `hcl:"task"`
	PortLabel    string            `hcl:"port"`
	AddressMode  string            `hcl:"address_mode"`
	Address      string            `hcl:"address"`
	Provider     string            `hcl:"provider"`
	OnUpdate     string            `hcl:"on_update"`
	Tags         []string          `hcl:"tags"`
	CanaryTags   []string          `hcl:"canary_tags"`
	Meta         map[string]string `hcl:"meta"`
	CanaryMeta   map[string]string `hcl:"canary_meta"`
	Checks       []*check          `hcl:"check,block"`
	CheckRestart *checkRestart     `hcl:"check_restart,block"`

	EnableTagOverride bool              `hcl:"enable_tag_override"`
	TaggedAddresses   map[string]string `hcl:"tagged_addresses"`
	Weights           *weights          `hcl:"weights,block"`
	Connect           *connect          `hcl:"connect,block"`
	Cluster           consulCluster     `hcl:"cluster"`
	Identity          *identity         `hcl:"identity,block"`
}

type weights struct {
	Passing int `hcl:"passing"`
	Warning int `hcl:"warning"`
}

func (service) Unsupported() string {
	return "kind"
}

type check struct {
	Name          string              `hcl:"name"`
	Type          string              `hcl:"type,required"`
	TaskName      string              `hcl:"task"`
	Command       string              `hcl:"command"`
	Args          []string            `hcl:"args"`
	Path          string              `hcl:"path"`
	Protocol      string              `hcl:"protocol"`
	Method        string              `hcl:"method"`
	Header        map[string][]string `hcl:"header"`
	Body          string              `hcl:"body"`
	PortLabel     string              `hcl:"port"`
	AddressMode   string              `hcl:"address_mode"`
	Interval      time.Duration       `hcl:"interval,required"`
	Timeout       time.Duration       `hcl:"timeout,required"`
	InitialStatus string              `hcl:"initial_status"`
	TLSServerName string              `hcl:"tls_server_name"`
	TLSSkipVerify bool                `hcl:"tls_skip_verify"`
	GRPCService   string              `hcl:"grpc_service"`
	GRPCUseTLS    bool                `hcl:"grpc_use_tls"`
	Expose        bool                `hcl:"expose"`

	SuccessBeforePassing   int           `hcl:"success_before_passing"`
	FailuresBeforeCritical int           `hcl:"failures_before_critical"`
	OnUpdate               string        `hcl:"on_update"`
	CheckRestart           *checkRestart `hcl:"check_restart,block"`
}

func (check) Unsupported() string { return "advertise" }

func (check) Ignored() map[string]string {
	return map[string]string{
		"notes":                   "nothing shows the notes of a check",
		"failures_before_warning": NoWarnings,
	}
}

type checkRestart struct {
	Limit          int            `hcl:"limit"`
	Grace          *time.Duration `hcl:"grace"`
	IgnoreWarnings bool           `hcl:"ignore_warnings"`
}

func (c *converter) services(list []*service) []*structs.Service {
	var out []*structs.Service
	for _, s := range list {
		out = append(out, c.service(s))
	}
	return out
}

func (c *converter) service(s *service) *structs.Service {
	out := &structs.Service{
		Name:         s.Name,
		TaskName:     s.TaskName,
		PortLabel:    s.PortLabel,
		AddressMode:  s.AddressMode,
		Address:      s.Address,
		Provider:     s.Provider,
		OnUpdate:     s.OnUpdate,
		Tags:         s.Tags,
		CanaryTags:   s.CanaryTags,
		Meta:         s.Meta,
		CanaryMeta:   s.CanaryMeta,
		CheckRestart: (*structs.CheckRestart)(s.CheckRestart),

		EnableTagOverride: s.EnableTagOverride,
		TaggedAddresses:   s.TaggedAddresses,
		Weights:           (*structs.ServiceWeights)(s.Weights),
		Connect:           c.connect(s.Connect),
		Identity:          s.Identity.identity(),
	}

	for _, x := range s.Checks {
		out.Checks = append(out.Checks, x.check())
	}

	return out
}

func (c *check) check() *structs.ServiceCheck {
	return &structs.ServiceCheck{
		Name:          c.Name,
		Type:          c.Type,
		Command:       c.Command,
		Args:          c.Args,
		Path:          c.Path,
		Protocol:      c.Protocol,
		Method:        c.Method,
		Header:        c.Header,
		Body:          c.Body,
		PortLabel:     c.PortLabel,
		AddressMode:   c.AddressMode,
		Interval:      c.Interval,
		Timeout:       c.Timeout,
		InitialStatus: c.InitialStatus,
		TLSServerName: c.TLSServerName,
		TLSSkipVerify: c.TLSSkipVerify,
		GRPCService:   c.GRPCService,
		GRPCUseTLS:    c.GRPCUseTLS,
		TaskName:      c.TaskName,
		Expose:        c.Expose,

		SuccessBeforePassing:   c.SuccessBeforePassing,
		FailuresBeforeCritical: c.FailuresBeforeCritical,
		OnUpdate:               c.OnUpdate,
		CheckRestart:           (*structs.CheckRestart)(c.CheckRestart),
	}
}
