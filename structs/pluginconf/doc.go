// Package pluginconf has the settings that operators give to CSI plugins, and the state of the calls of a
// plugin on the leader.
package pluginconf
