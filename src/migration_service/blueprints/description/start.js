window.onload = function () {
  window.ui = SwaggerUIBundle({ url: "/v1/openapi.json", dom_id: "#description", deepLinking: true });
};
