// Package cni attaches network namespaces to networks by plugins of the Container Network Interface, through
// libcni. A network is the node's bridge, or one that the operator has configured by a file.
//
// An Attachment is the durable record of one namespace in one network. It is stored before the first plugin
// is called and after each of them, so that Detach undoes whatever has been done, also in another process. A
// plugin outlives a killed agent: a lock that it inherits keeps the next agent from calling another plugin
// for the network before it has ended.
package cni

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"berth/client/machine/netns"
	"berth/structs"
)

// ifName is the name of the interface in the namespace.
const ifName = "eth0"

const (
	// callTimeout bounds the plugins of one attachment or detachment, and also the wait for the lock.
	callTimeout = 2 * time.Minute
	// endGrace is the time that a plugin has to end when the caller no longer waits.
	endGrace = 5 * time.Second
)

// Networks are the networks of a node.
type Networks struct {
	cfg Settings
	dir string // holds the locks, and the cache of libcni
}

// New returns the networks. dir holds the locks and is kept as long as attachments are.
func New(cfg Settings, dir string) *Networks {
	return &Networks{
		cfg: cfg.withDefaults(),
		dir: dir,
	}
}

// Attachment is a namespace in a network. ID and Namespace are arguments of Attach.
type Attachment struct {
	Network string // the name of the network
	List    []byte // its configuration at the time of Attach
	Ports   []Port
	// Result is the result of the last plugin that has succeeded.
	Result []byte `codec:",omitempty"`
}

// Port is a port of the node that leads into the namespace, as plugins read it.
type Port struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP,omitempty"`
}

// Target names the namespace of an attachment to plugins.
type Target struct {
	ID        string // of the allocation
	Namespace string // its file
}

// runtime returns the arguments of the plugins for an attachment.
func (t Target) runtime(a *Attachment) *libcni.RuntimeConf {
	r := &libcni.RuntimeConf{
		ContainerID: t.ID,
		NetNS:       t.Namespace,
		IfName:      ifName,
	}
	if !netns.IsLive(t.Namespace) {
		r.NetNS = "" // after a reboot: plugins then release only what is outside
	}
	if len(a.Ports) > 0 {
		// libcni passes it on only to plugins with this capability.
		r.CapabilityArgs = map[string]any{"portMappings": a.Ports}
	}
	return r
}

// Plan returns the attachment of an allocation in the network of a mode. Nothing is done yet.
func (n *Networks) Plan(mode string, ports []structs.AllocatedPort) (*Attachment, error) {
	list, err := n.configuration(mode)
	if err != nil {
		return nil, err
	}

	a := &Attachment{
		Network: list.Name,
		List:    list.Bytes,
	}
	for i := range ports {
		p := &ports[i]
		for _, protocol := range []string{"tcp", "udp"} { // a job does not name one
			a.Ports = append(a.Ports, Port{
				HostPort:      p.Value,
				ContainerPort: p.Inside(),
				Protocol:      protocol,
				HostIP:        p.HostIP,
			})
		}
	}

	return a, nil
}

// attempts of an attachment. Plugins of two networks, or of two agents, may make the same chain of the packet
// filter at once, and the second one then fails.
const attempts = 3

// Attach calls the plugins of a planned attachment. save stores the attachment after each of them. If a
// plugin fails, Attach undoes the part that was done and tries again. After an error or a crash Detach
// undoes it.
func (n *Networks) Attach(
	ctx context.Context, t Target, a *Attachment, save func() error,
) (*structs.AllocNetworkStatus, error) {
	s, err := n.begin(ctx, t, a)
	if err != nil {
		return nil, err
	}
	// A plugin that runs on has the lock until its own end, because it has the same open file.
	defer s.lock.Close()

	ctx, cancel := patient(ctx)
	defer cancel()
	// The plugins of other networks make their own rules.
	if a.Network == n.cfg.BridgeName {
		err = n.cfg.ensureRules(ctx)
		if err != nil {
			return nil, err
		}
	}

	var saved error
	run := &plugins{
		lock: s.lock,
		done: func(result []byte) error {
			a.Result = result
			saved = save()
			return saved
		},
	}

	for left := attempts - 1; ; left-- {
		result, err := n.library(run).AddNetworkList(ctx, s.list, s.runtime)
		if err == nil {
			return statusOf(result)
		}

		err = fmt.Errorf("attaching to network %q: %w", a.Network, err)
		// Without the record on disk, nobody could undo what another attempt makes.
		if left == 0 || saved != nil || ctx.Err() != nil || s.detach(ctx, a) != nil {
			return nil, err
		}

		// Nothing of this attempt is left.
		a.Result = nil
	}
}

// Detach undoes an attachment, also a part of one. It is idempotent.
func (n *Networks) Detach(ctx context.Context, t Target, a *Attachment) error {
	s, err := n.begin(ctx, t, a)
	if err != nil {
		return err
	}
	defer s.lock.Close()
	ctx, cancel := patient(ctx)
	defer cancel()
	return s.detach(ctx, a)
}

// library returns libcni for one session. Its cache has the results that it gives to plugins which detach.
func (n *Networks) library(run *plugins) *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir(n.cfg.paths(), filepath.Join(n.dir, "cache"), run)
}

// session is a change of an attachment.
type session struct {
	*Networks
	list    *libcni.NetworkConfigList
	runtime *libcni.RuntimeConf
	lock    *os.File // of the network
}

// begin reads the configuration of an attachment and takes the lock of its network.
func (n *Networks) begin(ctx context.Context, t Target, a *Attachment) (*session, error) {
	// The record has the configuration of the attachment, because the operator may have changed the file.
	list, err := libcni.NetworkConfFromBytes(a.List)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of network %q: %w", a.Network, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// The plugins of a network are called one after the other.
	lock, err := n.lock(ctx, a.Network)
	if err != nil {
		return nil, err
	}
	return &session{n, list, t.runtime(a), lock}, nil
}

// detach calls the plugins in reverse. A plugin that has nothing to undo succeeds (CNI spec, DEL).
func (s *session) detach(ctx context.Context, a *Attachment) error {
	run := &plugins{lock: s.lock}

	// Before this version, a plugin that detaches gets no result of the attachment.
	takes, err := version.GreaterThanOrEqualTo(s.list.CNIVersion, "0.4.0")
	if err == nil && takes {
		run.previous = a.Result
	}
	err = s.library(run).DelNetworkList(ctx, s.list, s.runtime)
	if err != nil {
		return fmt.Errorf("detaching from network %q: %w", a.Network, err)
	}
	return nil
}

// patient returns a context that ends a while after ctx: a plugin that is killed may leave a part of its
// work.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	leave := context.AfterFunc(ctx, func() { time.AfterFunc(endGrace, cancel) })
	return longer, func() { leave(); cancel() }
}

// statusOf returns the first address of an interface in the namespace.
func statusOf(result types.Result) (*structs.AllocNetworkStatus, error) {
	// The plugins answer in the form of the version in their configuration.
	r, err := current.NewResultFromResult(result)
	if err != nil {
		return nil, err
	}

	status := &structs.AllocNetworkStatus{}
	for _, ip := range r.IPs {
		if ip == nil || ip.Interface == nil ||
			*ip.Interface < 0 || *ip.Interface >= len(r.Interfaces) {
			continue
		}

		link := r.Interfaces[*ip.Interface]
		address, ok := netip.AddrFromSlice(ip.Address.IP)
		// An interface with a sandbox is in the namespace. The others are of the node.
		if link != nil && link.Sandbox != "" && ok {
			status.InterfaceName = link.Name
			status.Address = address.Unmap().String()
			break
		}
	}

	if status.Address == "" {
		return nil, errors.New("the plugins of the network gave no interface with an address")
	}

	if len(r.DNS.Nameservers)+len(r.DNS.Search)+len(r.DNS.Options) > 0 {
		status.DNS = &structs.DNSConfig{
			Servers:  r.DNS.Nameservers,
			Searches: r.DNS.Search,
			Options:  r.DNS.Options,
		}
	}

	return status.Bounded(), nil
}
