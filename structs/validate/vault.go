package validate

import (
	"fmt"
	"regexp"

	"berth/structs"
	"berth/structs/validate/field"
)

// roleName is the name of a role of Vault, and vaultNamespace the path of a namespace.
var (
	roleName       = field.Pattern(`^[\w.-]+$`)
	vaultNamespace = field.Pattern(`^/?[\w.-]*[\w-][\w.-]*(/[\w.-]*[\w-][\w.-]*)*/?$`)
)

// checkVault checks the block of a canonical task. The texts go into requests to Vault.
func checkVault(f field.Errors, v *structs.Vault) {
	f.Require(v.Cluster == "" || v.Cluster == structs.DefaultLoginCluster,
		"cluster %q: a node has one Vault; expected %q", structs.Cut(v.Cluster, structs.MaxQuoted),
		structs.DefaultLoginCluster)
	f.Require(v.Role == "" || fits(v.Role, roleName),
		"role %q is no name of a role of Vault: letters, digits, \"-\", \"_\" and \".\"",
		structs.Cut(v.Role, structs.MaxQuoted))
	f.Require(v.Namespace == "" || fits(v.Namespace, vaultNamespace),
		"namespace %q is no path of a namespace of Vault", structs.Cut(v.Namespace, structs.MaxQuoted))
	checkSignal(f, "change_signal", v.ChangeSignal)
	switch v.ChangeMode {
	case structs.TemplateNoop, structs.TemplateRestart:
	case structs.TemplateSignal:
		f.Require(v.ChangeSignal != "", "change_signal is required with change_mode signal")
	default:
		f.Addf("change_mode %q; expected noop, restart or signal",
			structs.Cut(v.ChangeMode, structs.MaxQuoted))
	}
}

// fits reports whether a name has a form, and no more bytes than a name may have.
func fits(name string, form func() *regexp.Regexp) bool {
	return len(name) <= structs.MaxName && form().MatchString(name)
}

func checkConsul(f field.Errors, c *structs.Consul) {
	if c == nil {
		return
	}

	f.CheckText("namespace", c.Namespace)
	f.Require(c.Cluster == "" || c.Cluster == structs.DefaultLoginCluster,
		"cluster %q: a node has one Consul; expected %q", structs.Cut(c.Cluster, structs.MaxQuoted),
		structs.DefaultLoginCluster)
}

// consulWarnings are about namespaces of Consul, which Canonicalize drops.
func consulWarnings(g *structs.TaskGroup) (all []string) {
	const reason = "has no effect: namespaces are those of Consul Enterprise"
	add := func(path string, c *structs.Consul) {
		if c != nil && c.Namespace != "" {
			all = append(all, fmt.Sprintf("%sconsul: namespace %q %s", path,
				structs.Cut(c.Namespace, structs.MaxQuoted), reason))
		}
	}

	add("", g.Consul)
	for _, t := range g.Tasks {
		if t != nil {
			add(fmt.Sprintf("task %q: ", structs.Cut(t.Name, structs.MaxQuoted)), t.Consul)
		}
	}
	return all
}
