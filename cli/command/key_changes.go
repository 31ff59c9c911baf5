package command

import "strings"

// UnsetFlag is the flag of the keys that a command removes.
var UnsetFlag = Flag{
	Name:  "unset",
	Kind:  Strings,
	Value: "keys",
	Usage: "Remove these keys, comma-separated; may be repeated",
}

// KeyChanges reads the keys to set, which are the arguments as key=value, and the keys of UnsetFlag. The
// error is of the usage.
func (c *Call) KeyChanges(pairs []string) (set map[string]string, unset []string, err error) {
	set = map[string]string{}
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" {
			return nil, nil, BadUsage("%q is no key=value", pair)
		}
		set[key] = value
	}

	for _, keys := range c.Strings(UnsetFlag.Name) {
		for key := range strings.SplitSeq(keys, ",") {
			_, isSet := set[key]
			if key == "" || isSet {
				return nil, nil, BadUsage("-unset has the key %q, which is empty or is set as well", key)
			}
			unset = append(unset, key)
		}
	}

	if len(set)+len(unset) == 0 {
		return nil, nil, BadUsage("nothing to change; expected key=value, or -unset key")
	}
	return set, unset, nil
}
