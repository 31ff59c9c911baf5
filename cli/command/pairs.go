package command

import (
	"strings"

	"berth/structs"
)

// Pairs reads the values of a repeated option of the form key=value. A value may be a secret, so no error
// shows one. The map is never nil.
func Pairs(option string, given []string) (structs.Secrets, error) {
	all := structs.Secrets{}
	for _, text := range given {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return nil, BadUsage("a -%s is not of the form key=value", option)
		}
		all[key] = value
	}
	return all, nil
}
