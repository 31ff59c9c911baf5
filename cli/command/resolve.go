package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/api"
	accessapi "berth/api/access"
	"berth/api/allocs"
	"berth/api/jobs"
	"berth/api/nodes"
	"berth/api/operator"
	"berth/api/volumes"
	"berth/internal/spelling"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/structs/quota"
)

// uuidLength is the length of a complete ID.
const uuidLength = 36

// candidate is a thing with a matching ID or name.
type candidate struct {
	id    string
	name  string // "" if its kind has none
	about string
}

// finder reads the candidates that a query selects.
type finder func(ctx context.Context, c *api.Client, q *api.Query) ([]candidate, error)

// kind is a kind of things that a user may name by a prefix of an ID.
type kind struct {
	noun   string
	named  bool   // things have a name and an ID
	random bool   // IDs are random
	global bool   // things belong to no namespace
	list   string // the command that lists all; "" is "status" of the kind
	find   finder
}

// kinds has the kinds by the names of arguments and options in usage lines.
var kinds = map[string]kind{
	"job": {
		noun: "job",
		find: findBy(jobs.List, func(j *structs.JobListStub) candidate {
			return candidate{id: j.ID, about: j.Type + ", " + j.Status}
		}),
	},
	"alloc": {
		noun:   "allocation",
		random: true,
		find: findBy(allocs.List, func(a *structs.AllocListStub) candidate {
			return candidate{id: a.ID, about: a.Name + ", " + a.ClientStatus}
		}),
	},
	"eval": {
		noun:   "evaluation",
		random: true,
		find: findBy(jobs.ListEvaluations, func(e *structs.Evaluation) candidate {
			return candidate{id: e.ID, about: "of job " + e.JobID + ", " + e.Status}
		}),
	},
	"deployment": {
		noun:   "deployment",
		random: true,
		find: findBy(jobs.ListDeployments, func(d *structs.Deployment) candidate {
			return candidate{id: d.ID, about: "of job " + d.JobID + ", " + d.Status}
		}),
	},
	"policy": {
		noun:   "scaling policy",
		random: true,
		list:   "scaling policy list",
		find: findBy(jobs.ListScalingPolicies, func(p *structs.ScalingPolicyListStub) candidate {
			return candidate{id: p.ID, about: "of " + ScalingTarget(p.Target)}
		}),
	},
	"plugin": {
		noun:   "plugin",
		global: true,
		find: findBy(volumes.ListPlugins, func(p *structs.CSIPluginListStub) candidate {
			return candidate{id: p.ID, about: p.Provider}
		}),
	},
	"namespace": {
		noun:   "namespace",
		global: true,
		find: findBy(operator.ListNamespaces, func(n *cluster.Namespace) candidate {
			return candidate{id: n.Name, about: n.Description}
		}),
	},
	"quota": {
		noun:   "quota",
		global: true,
		list:   "quota list",
		find:   findQuotas,
	},
	"pool": {
		noun:   "node pool",
		global: true,
		find: findBy(nodes.ListPools, func(p *cluster.NodePool) candidate {
			return candidate{id: p.Name, about: p.Description}
		}),
	},
	"variable": {
		noun: "variable",
		list: "var list",
		find: findBy(accessapi.Variables, func(v *access.VariableMetadata) candidate {
			return candidate{id: v.Path}
		}),
	},
	"volume": {noun: "volume", find: findVolumes},
	"node":   {noun: "node", find: findNodes, named: true, global: true},
	"server": {noun: "server", find: findServers, global: true},
}

// Resolve returns the only complete ID with a prefix.
func (c *Call) Resolve(ctx context.Context, name, prefix string) (string, error) {
	if len(prefix) == uuidLength {
		return prefix, nil
	}

	k := kinds[name]
	found, err := k.find(ctx, c.API, &api.Query{Prefix: prefix})
	if err != nil {
		return "", err
	}

	switch len(found) {
	case 0:
		err := c.checkNamespaceOf(ctx, k)
		if err != nil {
			return "", err
		}

		format := "no %s has an ID that begins with %q"
		if k.named {
			format = "no %s has the name %q or an ID that begins with it"
		}

		unknown := structs.NotFoundf(format, k.noun, prefix)
		if near := c.closest(ctx, k, prefix); near != "" {
			return "", fmt.Errorf("%w; did you mean %q?", unknown, near)
		}

		return "", fmt.Errorf("%w; \"berth %s\" lists all", unknown, cmp.Or(k.list, name+" status"))

	case 1:
		return found[0].id, nil
	}

	text := fmt.Sprintf("%q may be any of %d %ss:",
		prefix, len(found), k.noun)
	for _, f := range found {
		if f.id == prefix {
			return prefix, nil
		}

		text += "\n  " + f.id + "  " + f.about
	}

	return "", structs.Invalidf("%s", text)
}

// DidYouMean adds suggestions to a not-found error: the IDs with the typed prefix, or else the closest ID. If
// the namespace does not exist, that is the error.
func (c *Call) DidYouMean(ctx context.Context, name, typed string, err error) error {
	if !structs.IsKind(err, structs.KindNotFound) {
		return err
	}

	k := kinds[name]
	unknown := c.checkNamespaceOf(ctx, k)
	if unknown != nil {
		return unknown
	}

	var ids []string
	found, _ := k.find(ctx, c.API, &api.Query{
		Prefix:  typed,
		PerPage: maxGuesses,
	})
	for _, f := range found {
		ids = append(ids, f.id)
	}

	if slices.Contains(ids, typed) { // something else was not found
		return err
	}

	if len(ids) > 0 {
		return fmt.Errorf("%w; there is %s", err, strings.Join(ids, ", "))
	}

	if near := c.closest(ctx, k, typed); near != "" {
		return fmt.Errorf("%w; did you mean %q?", err, near)
	}

	return err
}

// maxGuesses bounds the number of things that a misspelt name is compared with.
const maxGuesses = 1000

// closest returns the ID or name that is closest to a typed one, or "". It does not guess random IDs.
func (c *Call) closest(ctx context.Context, k kind, typed string) string {
	if k.random {
		return ""
	}
	var words []string
	found, _ := k.find(ctx, c.API, &api.Query{PerPage: maxGuesses})
	for _, f := range found {
		words = append(words, cmp.Or(f.name, f.id))
	}
	return spelling.Closest(typed, words)
}

// findBy returns the finder of the things that list reads.
func findBy[T any](list Lister[T], of func(T) candidate) finder {
	return func(ctx context.Context, c *api.Client, q *api.Query) ([]candidate, error) {
		things, _, err := list(ctx, c, q)
		return candidatesOf(things, of), err
	}
}

func candidatesOf[T any](things []T, of func(T) candidate) (found []candidate) {
	for _, thing := range things {
		found = append(found, of(thing))
	}
	return found
}

func findQuotas(ctx context.Context, c *api.Client, q *api.Query) ([]candidate, error) {
	all, _, err := accessapi.Quotas(ctx, c, q)
	return candidatesOf(all, func(s *quota.Spec) candidate {
		return candidate{id: s.Name, about: s.Description}
	}), err
}

func findVolumes(ctx context.Context, c *api.Client, q *api.Query) ([]candidate, error) {
	volumes, _, err := volumes.List(ctx, c, volumes.Filter{}, q)
	return candidatesOf(volumes, func(v *structs.CSIVolumeListStub) candidate {
		return candidate{id: v.ID, about: "of plugin " + v.PluginID + ", " + v.State}
	}), err
}

// findNodes finds the nodes whose name equals the prefix of q, and those whose ID begins with it.
func findNodes(ctx context.Context, c *api.Client, q *api.Query) ([]candidate, error) {
	var named []*structs.NodeListStub
	if q.Prefix != "" {
		var err error
		named, _, err = nodes.List(ctx, c, &api.Query{
			Filter: fmt.Sprintf("Name == %q", q.Prefix),
		})
		if err != nil {
			return nil, err
		}
	}

	begin, _, err := nodes.List(ctx, c, q)
	all := candidatesOf(append(named, begin...), func(n *structs.NodeListStub) candidate {
		return candidate{
			id:    n.ID,
			name:  n.Name,
			about: n.Name + ", " + n.Status,
		}
	})

	return slices.CompactFunc(all, func(a, b candidate) bool {
		return a.id == b.id
	}), err
}

// findServers returns all servers, because no command names a server by a prefix.
func findServers(ctx context.Context, c *api.Client, _ *api.Query) ([]candidate, error) {
	members, err := operator.ListMembers(ctx, c)
	if err != nil {
		return nil, err
	}
	return candidatesOf(members.Members, func(m *cluster.AgentMember) candidate {
		return candidate{id: m.Name, about: m.Status}
	}), nil
}

// ScalingTarget describes the target of a policy.
func ScalingTarget(target map[string]string) string {
	return fmt.Sprintf("job %s, group %s, namespace %s", target["Job"], target["Group"], target["Namespace"])
}

// stamped is a row, which knows when it was made.
type stamped interface {
	Stamps() (created, modified uint64)
}

// On returns a client whose destructive calls change no other row than the one that the command has read: see
// api.Client.On. The error comes from the read. It ends the command, unless the caller may not read the row
// or there is none: then the request itself finds what is wrong.
func (c *Call) On(row stamped, err error) (*api.Client, error) {
	switch {
	case structs.IsKind(err, structs.KindNotFound), structs.IsKind(err, structs.KindDenied):
		return c.API, nil
	case err != nil:
		return nil, err
	}
	created, _ := row.Stamps()
	return c.API.On(created), nil
}
