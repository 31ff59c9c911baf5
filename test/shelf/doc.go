// Package shelf is a CSI plugin that attaches, for tests. Its volumes are images or directories in a
// directory that all nodes share. A node may mount one only while it is attached there. A test binary is
// also the process of the plugin: it calls Run.
package shelf
