package structs

import "strings"

// Placeholder begins the part of a text that a node replaces.
const Placeholder = "${"

// HasPlaceholder reports whether only the node knows the value of a text.
func HasPlaceholder(text string) bool { return strings.Contains(text, Placeholder) }
