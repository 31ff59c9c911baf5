package command

import (
	"os"
	"os/user"
)

// UserAtHost returns the login name of the user and the name of the machine.
func UserAtHost() string {
	name := os.Getenv("SUDO_USER")
	u, err := user.Current()
	if name == "" && err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil || name == "" {
		return name
	}
	return name + "@" + host
}
