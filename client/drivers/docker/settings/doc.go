// Package settings has the settings of the docker driver: what an operator may set, the defaults and the
// checks of a configuration. It does not decide what a task gets: packages privileges and mounts do.
package settings
