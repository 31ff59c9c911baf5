package field

import (
	"regexp"
	"strings"
	"sync"

	"berth/structs"
)

// Pattern returns an expression that it compiles at the first use: every process of the executable, also the
// supervisor of a task, begins with the variables of its packages.
func Pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

var (
	hostNetworkForm = Pattern(`^[a-zA-Z0-9_.-]{1,64}$`)
	cniNameForm     = Pattern(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}$`)
	domainForm      = Pattern(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?` +
		`(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	resolverOption = Pattern(`^[!-~]{1,64}$`)
)

// IsHostNetwork reports whether a text can be the name of a host network.
func IsHostNetwork(name string) bool { return hostNetworkForm().MatchString(name) }

var (
	headerForm = Pattern("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,255}$")
	inHeader   = Pattern(`^[^\x00-\x08\x0a-\x1f\x7f]*$`)
)

// IsHeader reports whether a text can be the name of a header of HTTP.
func IsHeader(name string) bool { return headerForm().MatchString(name) }

// IsHeaderValue reports whether a text can be the value of a header of HTTP: one line without control
// characters.
func IsHeaderValue(text string) bool { return inHeader().MatchString(text) }

// MaxDomain is the length of the longest name of a host that Linux takes.
const MaxDomain = 64

// IsDomain reports whether a text can be the name of a host.
func IsDomain(name string) bool { return len(name) <= MaxDomain && domainForm().MatchString(name) }

// IsSearch reports whether a text can be a domain in which names are looked up.
func IsSearch(name string) bool {
	return name == "." ||
		len(name) <= structs.MaxName && domainForm().MatchString(strings.TrimSuffix(name, "."))
}

// IsResolverOption reports whether a text can be an option of name resolution.
func IsResolverOption(text string) bool { return resolverOption().MatchString(text) }

// serviceNameForm is the form of a label of the domain name system, so that every consumer knows it.
var serviceNameForm = Pattern(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// IsServiceName reports whether a name without placeholders is valid for a service.
func IsServiceName(name string) bool { return serviceNameForm().MatchString(name) }

var environKeyForm = Pattern(`^[^=\x00]+$`)

// IsEnvironKey reports whether a text can be the name of an environment variable.
func IsEnvironKey(key string) bool { return environKeyForm().MatchString(key) }

// IsNetworkMode reports whether a text is a mode of a network.
func IsNetworkMode(mode string) bool {
	switch mode {
	case structs.NetworkModeHost, structs.NetworkModeBridge, structs.NetworkModeNone:
		return true
	}
	name, ok := strings.CutPrefix(mode, structs.NetworkModeCNI)
	return ok && cniNameForm().MatchString(name)
}
