// Package required has the right that each method needs, by area. The list lines of package endpoints name
// them.
package required
