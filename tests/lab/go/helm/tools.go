//go:build tools

// Package tools names the command that the lab builds, so that go.mod and go.sum pin it and all it needs.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
